import { startApiServer } from "@muster/devcluster";
import { apiServers } from "@muster/testkit";
import { expect } from "vitest";

/** Every run has this suite on the real API server. */
const EVERY_RUN = ["access.int.test.ts"];

export const API_SERVERS = apiServers(startApiServer, { file: expect.getState().testPath ?? "", everyRun: EVERY_RUN });
