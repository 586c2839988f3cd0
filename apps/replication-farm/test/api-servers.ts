import { startApiServer } from "@muster/devcluster";
import { listApiServers } from "@muster/testkit";
import { expect } from "vitest";

/** The suites that run on a real API server in every run; the others do in `npm run test:all`. */
const EVERY_RUN = ["farm.int.test.ts"];

/** The servers that a suite runs against. */
export const API_SERVERS = listApiServers(startApiServer, {
  file: expect.getState().testPath ?? "",
  everyRun: EVERY_RUN,
});

/** For tests that do not depend on the kind of API server. */
export const [EMBEDDED] = API_SERVERS;
