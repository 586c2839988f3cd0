import { kubeApiServer, kubeAssets } from "@muster/testkit";

/** What a suite needs of an API server, whichever it is. */
export type TestApiServer = AsyncDisposable & {
  readonly kubeconfig: string;
  /** PEM: the server shows a client certificate of this authority when it reads logs from a kubelet. */
  readonly kubeletClientCa: string;
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
    {
      title: assets.found ? "a real kube-apiserver" : `a real kube-apiserver (skipped: ${assets.reason})`,
      skip: !assets.found,
      start: kubeApiServer,
    },
  ];
}
