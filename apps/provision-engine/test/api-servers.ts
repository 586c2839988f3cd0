import { startApiServer } from "@muster/devcluster";
import { listApiServers } from "@muster/testkit";
import { expect } from "vitest";

/** The suites that run on a real API server in every run; the others do in `npm run test:all`. */
const EVERY_RUN = ["cluster.int.test.ts", "lease-objects.int.test.ts", "slice-ends.int.test.ts", "slices.int.test.ts"];

/** The servers that a suite runs against. */
export const API_SERVERS = listApiServers(startApiServer, {
  file: expect.getState().testPath ?? "",
  everyRun: EVERY_RUN,
});

/** For tests that do not depend on the API server. */
export const [EMBEDDED] = API_SERVERS;
