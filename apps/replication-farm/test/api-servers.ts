import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startApiServer, type AttachOptions } from "@muster/devcluster";
import { kubeApiServer, kubeAssets } from "@muster/testkit";

/** An API server without nodes, and what nodes need so that it can read their logs. */
export type TestApiServer = AsyncDisposable & {
  readonly kubeconfig: string;
  readonly nodeOptions: Pick<AttachOptions, "access" | "certificate">;
};

export type ApiServerCase = {
  readonly title: string;
  readonly skip: boolean;
  readonly start: () => Promise<TestApiServer>;
};

const assets = kubeAssets();

/** For what does not depend on which API server it is. */
export const EMBEDDED: ApiServerCase = { title: "the embedded API server", skip: false, start: embedded };

/** The servers that a suite runs against; one that cannot be had says so in its title. */
export const API_SERVERS: readonly ApiServerCase[] = [
  EMBEDDED,
  {
    title: assets.found ? "a real kube-apiserver" : `a real kube-apiserver (skipped: ${assets.reason})`,
    skip: !assets.found,
    start: async () => {
      const server = await kubeApiServer();
      return {
        kubeconfig: server.kubeconfig,
        nodeOptions: { access: { clientCa: server.kubeletClientCa } },
        [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
      };
    },
  },
];

async function embedded(): Promise<TestApiServer> {
  const directory = await mkdtemp(join(tmpdir(), "muster-farm-api-"));
  const server = await startApiServer({ directory });
  return {
    kubeconfig: server.kubeconfig,
    nodeOptions: { access: { bearerToken: server.kubelet.token }, certificate: server.kubelet.certificate },
    [Symbol.asyncDispose]: async () => {
      await server[Symbol.asyncDispose]();
      await rm(directory, { recursive: true, force: true });
    },
  };
}
