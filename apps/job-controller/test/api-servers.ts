import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startApiServer, type AttachOptions } from "@muster/devcluster";
import { kubeApiServer, kubeAssets } from "@muster/testkit";

/** An API server without nodes, and what nodes need so that it can read their logs. */
export type ApiServer = AsyncDisposable & {
  readonly kubeconfig: string;
  readonly nodeOptions: Pick<AttachOptions, "access" | "certificate">;
};

const assets = kubeAssets();

/** `hasRoles`: it decides who may do what, and so knows roles. Such a one has no garbage collector by itself. */
export type ApiServerCase = {
  readonly title: string;
  readonly skip: boolean;
  readonly hasRoles: boolean;
  readonly start: () => Promise<ApiServer>;
};

/** The servers that a suite runs against; one that cannot be had says so in its title. */
export const API_SERVERS: readonly ApiServerCase[] = [
  { title: "the embedded API server", skip: false, hasRoles: false, start: startEmbedded },
  {
    title: assets.found ? "a real kube-apiserver" : `a real kube-apiserver (skipped: ${assets.reason})`,
    skip: !assets.found,
    hasRoles: true,
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

async function startEmbedded(): Promise<ApiServer> {
  const directory = await mkdtemp(join(tmpdir(), "muster-jobs-api-"));
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
