import { copyFile, mkdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { startApiServer, type ApiServer } from "./apiserver/start-api-server.ts";
import { type AttachedNodes, type AttachOptions, attachNodes } from "./attach-nodes.ts";

export type DevClusterOptions = Pick<AttachOptions, "pools" | "path" | "stopGraceMs" | "now" | "onError"> & {
  /** Everything of the cluster: kubeconfig, logs, working directories. */
  readonly directory: string;
  /** Of the API server; default any that is free. */
  readonly port?: number;
  /** A second place for the kubeconfig. */
  readonly kubeconfig?: string;
};

/** A whole cluster in this process. Disposing ends the nodes with their processes, then the API server; what it knew is gone. */
export type DevCluster = AsyncDisposable & {
  /** The file. */
  readonly kubeconfig: string;
  readonly server: ApiServer;
  readonly nodes: AttachedNodes["nodes"];
};

/** Starts an API server, a scheduler, and a node for each place in the pools. Resolves when all nodes are ready. */
export async function startDevCluster(options: DevClusterOptions): Promise<DevCluster> {
  const { directory, port, kubeconfig: copy, ...shared } = options;
  const { now, onError } = options;
  await using started = new AsyncDisposableStack();
  const server = started.use(
    await startApiServer({
      directory,
      ...(port === undefined ? {} : { port }),
      ...(now === undefined ? {} : { now }),
      ...(onError === undefined ? {} : { onError: (error) => onError(error, "serving the API") }),
    }),
  );
  const { nodes } = started.use(
    await attachNodes({
      ...shared,
      kubeconfig: server.kubeconfig,
      directory: join(directory, "nodes"),
      access: { bearerToken: server.kubelet.token },
      certificate: server.kubelet.certificate,
    }),
  );
  if (copy !== undefined) {
    await mkdir(dirname(copy), { recursive: true });
    await copyFile(server.kubeconfig, copy);
  }
  const all = started.move();
  return { kubeconfig: copy ?? server.kubeconfig, server, nodes, [Symbol.asyncDispose]: () => all.disposeAsync() };
}
