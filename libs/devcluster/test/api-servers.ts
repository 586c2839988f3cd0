import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { kubeApiServer, kubeAssets } from "@muster/testkit";
import { type KubeletOptions, startApiServer } from "../src/index.ts";

/** What a suite needs of an API server, whichever it is. */
export type TestApiServer = AsyncDisposable & {
  /** The file. */
  readonly kubeconfig: string;
  /** How a kubelet and this server know each other. */
  readonly kubelet: Pick<KubeletOptions, "access" | "certificate">;
};

export type ApiServerCase = {
  readonly title: string;
  readonly skip: boolean;
  readonly start: () => Promise<TestApiServer>;
};

/** The servers that every suite of the scheduler and the kubelet runs against. What is skipped says so in its title. */
export function apiServers(): readonly ApiServerCase[] {
  const assets = kubeAssets();
  return [
    { title: "the embedded API server", skip: false, start: startEmbedded },
    {
      title: assets.found ? "a real kube-apiserver" : `a real kube-apiserver (skipped: ${assets.reason})`,
      skip: !assets.found,
      start: startReal,
    },
  ];
}

async function startEmbedded(): Promise<TestApiServer> {
  const directory = await mkdtemp(join(tmpdir(), "muster-apiserver-"));
  const server = await startApiServer({ directory });
  return {
    kubeconfig: server.kubeconfig,
    kubelet: { access: { bearerToken: server.kubelet.token }, certificate: server.kubelet.certificate },
    [Symbol.asyncDispose]: async () => {
      await server[Symbol.asyncDispose]();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

async function startReal(): Promise<TestApiServer> {
  const server = await kubeApiServer();
  return {
    kubeconfig: server.kubeconfig,
    kubelet: { access: { clientCa: server.kubeletClientCa } },
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}
