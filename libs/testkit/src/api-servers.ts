import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startKubeApiServer, findKubeAssets } from "./kube-apiserver.ts";
import { isInMatrix, type MatrixSuite } from "./test-matrix.ts";

/** An API server without nodes, for one suite. */
export type TestApiServer = AsyncDisposable & {
  /** The file. */
  readonly kubeconfig: string;
  /** The options of nodes for contact with this server in both directions. */
  readonly nodeOptions: {
    readonly access: { readonly bearerToken?: string; readonly clientCa?: string };
    readonly certificate?: { readonly cert: string; readonly key: string };
  };
};

export type ApiServerCase = {
  readonly title: string;
  readonly skip: boolean;
  /** True for a real API server, which checks roles and has no garbage collector. */
  readonly isReal: boolean;
  readonly start: () => Promise<TestApiServer>;
};

/** Starts the embedded API server with its files in this directory. A parameter, because its packages are tested with this library. */
type StartEmbedded = (options: { readonly directory: string }) => Promise<
  AsyncDisposable & {
    readonly kubeconfig: string;
    readonly kubelet?: {
      readonly token: string;
      readonly certificate: { readonly cert: string; readonly key: string };
    };
  }
>;

/**
 * The servers that a suite runs against, the embedded one first; an omitted one has the reason in its title. With `suite`, the real server is part of the
 * matrix: `isInMatrix` decides whether this run includes it.
 */
export function listApiServers(
  startEmbedded: StartEmbedded,
  suite?: MatrixSuite,
): readonly [embedded: ApiServerCase, real: ApiServerCase] {
  const skipped = whyNotReal(suite);
  const real = "a real kube-apiserver";
  return [
    { title: "the embedded API server", skip: false, isReal: false, start: () => inDirectory(startEmbedded) },
    {
      title: skipped === undefined ? real : `${real} (skipped: ${skipped})`,
      skip: skipped !== undefined,
      isReal: true,
      start: startReal,
    },
  ];
}

function whyNotReal(suite: MatrixSuite | undefined): string | undefined {
  const assets = findKubeAssets();
  if (!assets.found) return assets.reason;
  const isIncluded = suite === undefined || isInMatrix(suite, process.env["MUSTER_TESTS_MATRIX"]);
  return isIncluded ? undefined : "npm run test:all includes it";
}

async function inDirectory(startEmbedded: StartEmbedded): Promise<TestApiServer> {
  const directory = await mkdtemp(join(tmpdir(), "muster-apiserver-"));
  const server = await startEmbedded({ directory });
  const { kubeconfig, kubelet } = server;
  return {
    kubeconfig,
    nodeOptions:
      kubelet === undefined
        ? { access: {} }
        : { access: { bearerToken: kubelet.token }, certificate: kubelet.certificate },
    [Symbol.asyncDispose]: async () => {
      await server[Symbol.asyncDispose]();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

async function startReal(): Promise<TestApiServer> {
  const server = await startKubeApiServer();
  return {
    kubeconfig: server.kubeconfig,
    nodeOptions: { access: { clientCa: server.kubeletClientCa } },
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}
