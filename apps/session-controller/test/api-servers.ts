import { startApiServer } from "@muster/devcluster";
import { listApiServers } from "@muster/testkit";
import { expect } from "vitest";

/** Suites that always run on a real API server; the others do only in `npm run test:all`. */
const EVERY_RUN = ["sessions.int.test.ts"];

/** The servers that a suite runs against. */
export const API_SERVERS = listApiServers(startApiServer, {
  file: expect.getState().testPath ?? "",
  everyRun: EVERY_RUN,
});

/** For tests that do not depend on the kind of API server. */
export const [EMBEDDED] = API_SERVERS;
