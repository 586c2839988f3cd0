import { listApiServers, type TestApiServer } from "@muster/testkit";
import { type ApiServer, startApiServer } from "../src/index.ts";
import { expect } from "vitest";

/** The suites that run on a real API server in every run; the others do in `npm run test:all`. */
const EVERY_RUN = ["kubelet.int.test.ts"];

const embedded = new Map<string, ApiServer>();

/** The servers that every suite of the scheduler and the kubelet runs against. */
export const API_SERVERS = listApiServers(
  async (options) => {
    const server = await startApiServer(options);
    embedded.set(server.kubeconfig, server);
    return server;
  },
  { file: expect.getState().testPath ?? "", everyRun: EVERY_RUN },
);

/** The embedded server is used without connections, as in a cluster of one process; a real one over HTTP. */
export function makeApi({ kubeconfig }: TestApiServer): Partial<Pick<ApiServer, "api">> {
  const server = embedded.get(kubeconfig);
  return server === undefined ? {} : { api: server.api };
}
