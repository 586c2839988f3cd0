import { copyFile, mkdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { startApiServer, type ApiServer } from "./apiserver/start-api-server.ts";
import { type AttachOptions, attachNodes } from "./attach-nodes.ts";
import { type SimulatedNodes, startSimulatedNodes } from "./simulated-kubelet/start-simulated-nodes.ts";

export type DevClusterOptions = Pick<
  AttachOptions,
  "pools" | "path" | "stopGraceMs" | "nodeGraceMs" | "now" | "onError"
> & {
  /** Everything of the cluster: kubeconfig, logs, working directories. */
  readonly directory: string;
  /** Of the API server; default any that is free. */
  readonly port?: number;
  /** Default false. True: the nodes only pretend to run their pods, see `startSimulatedNodes`. */
  readonly simulated?: boolean;
  /** What the API server knows outlives it, in the folder `state` of the directory. */
  readonly persist?: boolean;
  /** A second place for the kubeconfig. */
  readonly kubeconfig?: string;
};

/** A whole cluster in this process. Disposing ends the nodes with their processes, then the API server; what it knew is gone unless it persists. */
export type DevCluster = AsyncDisposable & {
  /** The file. */
  readonly kubeconfig: string;
  readonly server: ApiServer;
  readonly nodes: readonly { readonly nodeName: string }[];
  /** Undefined when the nodes run processes. */
  readonly simulation: SimulatedNodes | undefined;
};

/** Starts an API server, a scheduler, and a node for each place in the pools. Resolves when all nodes are ready. */
export async function startDevCluster(options: DevClusterOptions): Promise<DevCluster> {
  const { directory, port, persist, kubeconfig: copy, simulated = false, ...shared } = options;
  const { now, onError } = options;
  await using started = new AsyncDisposableStack();
  const server = started.use(
    await startApiServer({
      directory,
      ...(port === undefined ? {} : { port }),
      ...(persist === undefined ? {} : { persist }),
      ...(now === undefined ? {} : { now }),
      ...(onError === undefined ? {} : { onError: (error) => onError(error, "serving the API") }),
    }),
  );
  const attach = {
    ...shared,
    kubeconfig: server.kubeconfig,
    directory: join(directory, "nodes"),
    access: { bearerToken: server.kubelet.token },
    certificate: server.kubelet.certificate,
  };
  const simulation = simulated ? started.use(await simulate(attach)) : undefined;
  const nodes = simulation?.names.map((nodeName) => ({ nodeName })) ?? started.use(await attachNodes(attach)).nodes;
  if (copy !== undefined) {
    await mkdir(dirname(copy), { recursive: true });
    await copyFile(server.kubeconfig, copy);
  }
  const all = started.move();
  const kubeconfig = copy ?? server.kubeconfig;
  return { kubeconfig, server, nodes, simulation, [Symbol.asyncDispose]: () => all.disposeAsync() };
}

function simulate({ pools, ...options }: AttachOptions): Promise<SimulatedNodes> {
  return startSimulatedNodes({ ...options, pools: Object.fromEntries(pools.map(({ name, ...pool }) => [name, pool])) });
}
