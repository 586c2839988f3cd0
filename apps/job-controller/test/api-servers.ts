import { startApiServer } from "@muster/devcluster";
import { listApiServers } from "@muster/testkit";
import { expect } from "vitest";

/** The suites that run on a real API server in every run; `npm run test:all` runs the others. */
const EVERY_RUN = ["definition.int.test.ts", "jobs.int.test.ts"];

/** Lists the API servers that the suite runs against. */
export const API_SERVERS = listApiServers(startApiServer, {
  file: expect.getState().testPath ?? "",
  everyRun: EVERY_RUN,
});
