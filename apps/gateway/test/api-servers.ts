import { startApiServer } from "@muster/devcluster";
import { listApiServers } from "@muster/testkit";
import { expect } from "vitest";

/** Every run has this suite on the real API server. */
const EVERY_RUN = ["access.int.test.ts"];

export const API_SERVERS = listApiServers(startApiServer, {
  file: expect.getState().testPath ?? "",
  everyRun: EVERY_RUN,
});
