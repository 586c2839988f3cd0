import { apiServers } from "@muster/testkit";
import { startApiServer } from "../src/index.ts";
import { expect } from "vitest";

/** The suites that run on a real API server in every run; the others do in `npm run test:all`. */
const EVERY_RUN = ["kubelet.int.test.ts"];

/** The servers that every suite of the scheduler and the kubelet runs against. */
export const API_SERVERS = apiServers(startApiServer, { file: expect.getState().testPath ?? "", everyRun: EVERY_RUN });
