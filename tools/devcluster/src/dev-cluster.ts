import { join } from "node:path";
import { loadKube } from "@muster/kube";
import { startApiServer, type ApiServer } from "./apiserver/start-api-server.ts";
import { writeKubeconfig } from "./apiserver/write-kubeconfig.ts";
import { type AttachOptions, attachNodes } from "./attach-nodes.ts";
import { makeKubeletNodes, makeSimulatedMachineNodes } from "./machines/machine-nodes.ts";
import { type Machines, type MachinesOptions, listNodes, startMachines } from "./machines/start-machines.ts";
import { type SimulatedNodes, startSimulatedNodes } from "./simulated-kubelet/start-simulated-nodes.ts";

export type DevClusterOptions = Pick<
  AttachOptions,
  "pools" | "path" | "stopGraceMs" | "nodeGraceMs" | "now" | "onError"
> & {
  /** Directory of all files: kubeconfig, logs, working directories. */
  readonly directory: string;
  /** Port of the API server; default: any free port. */
  readonly port?: number;
  /** If true, the nodes simulate their pods, see `startSimulatedNodes`; default false. */
  readonly simulated?: boolean;
  /** Keeps the state of the API server across restarts, in the folder `state` of the directory. */
  readonly persist?: boolean;
  /** Second path for the kubeconfig, which then names the host. */
  readonly kubeconfig?: string;
  /** Name of the API server and the simulated cloud for other machines; absent: they listen only on 127.0.0.1. */
  readonly host?: string;
  /** A small cloud that adds nodes on demand, see `startMachines`; it stores its state in the folder `machines`. */
  readonly machines?: Omit<MachinesOptions, "directory" | "nodes" | "host" | "now" | "onError">;
};

/** A whole cluster in this process. Disposing ends the nodes with their processes, then the API server; its state is lost unless it persists. */
export type DevCluster = AsyncDisposable & {
  /** Path of the kubeconfig file. */
  readonly kubeconfig: string;
  readonly server: ApiServer;
  readonly nodes: readonly { readonly nodeName: string }[];
  /** Undefined if the nodes run processes. */
  readonly simulation: SimulatedNodes | undefined;
  /** Undefined without the option. */
  readonly machines: Machines | undefined;
};

/** Where the small cloud of a cluster stores its state. */
export function listPoolMachines(directory: string): string {
  return join(directory, "machines");
}

/** Starts an API server, a scheduler, and all nodes of the pools. Resolves once all nodes are ready. */
export async function startDevCluster(options: DevClusterOptions): Promise<DevCluster> {
  const { directory, port, persist, kubeconfig: copy, host, simulated = false, machines: cloud, ...shared } = options;
  const { now, onError } = options;
  const named = host === undefined ? {} : { host };
  await using started = new AsyncDisposableStack();
  const server = started.use(
    await startApiServer({
      directory,
      ...named,
      ...(port === undefined ? {} : { port }),
      ...(persist === undefined ? {} : { persist }),
      ...(now === undefined ? {} : { now }),
      ...(onError === undefined ? {} : { onError: (error) => onError(error, "serving the API") }),
    }),
  );
  const attach = {
    ...shared,
    kubeconfig: server.kubeconfig,
    api: server.api,
    directory: join(directory, "nodes"),
    access: { bearerToken: server.kubelet.token },
    certificate: server.kubelet.certificate,
  };
  const simulation = simulated ? started.use(await simulate(attach)) : undefined;
  const nodes = simulation?.names.map((nodeName) => ({ nodeName })) ?? started.use(await attachNodes(attach)).nodes;
  const machines =
    cloud === undefined
      ? undefined
      : started.use(await startCloud(directory, { ...cloud, ...named }, { ...attach, simulation }));
  if (copy !== undefined) {
    const url = `https://${host ?? "127.0.0.1"}:${server.port}`;
    await writeKubeconfig(copy, { url, ca: server.ca, token: server.token });
  }
  const all = started.move();
  const kubeconfig = copy ?? server.kubeconfig;
  return { kubeconfig, server, nodes, simulation, machines, [Symbol.asyncDispose]: () => all.disposeAsync() };
}

function simulate({ pools, ...options }: AttachOptions): Promise<SimulatedNodes> {
  return startSimulatedNodes({ ...options, pools: Object.fromEntries(pools.map(({ name, ...pool }) => [name, pool])) });
}

function startCloud(
  clusterDirectory: string,
  cloud: NonNullable<DevClusterOptions["machines"]> & Pick<DevClusterOptions, "host">,
  { simulation, kubeconfig, api, ...attach }: AttachOptions & Cluster,
): Promise<Machines> {
  const { certificate, access, path, stopGraceMs, now, onError } = attach;
  const directory = listPoolMachines(clusterDirectory);
  const kept = {
    access,
    kubeconfig: loadKube(kubeconfig),
    ...(api === undefined ? {} : { api }),
    ...(certificate === undefined ? {} : { certificate }),
    ...(path === undefined ? {} : { path }),
    ...(stopGraceMs === undefined ? {} : { stopGraceMs }),
  };
  const shared = { ...(now === undefined ? {} : { now }), ...(onError === undefined ? {} : { onError }) };
  return startMachines({
    ...cloud,
    ...shared,
    directory,
    nodes:
      simulation === undefined
        ? makeKubeletNodes(listNodes(directory), { ...kept, ...shared })
        : makeSimulatedMachineNodes(simulation),
  });
}

type Cluster = {
  readonly access: NonNullable<AttachOptions["access"]>;
  readonly simulation: SimulatedNodes | undefined;
};
