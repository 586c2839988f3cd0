import { setImmediate as turn } from "node:timers/promises";
import type { V1Node, V1Pod } from "@kubernetes/client-node";
import { throwFault } from "@muster/faults";
import { type Informer, openInformer, type KubeObject, type ListWatch, loadKube } from "@muster/kube";
import { makeRemoteApi } from "../cluster-api.ts";
import type { NodeFacts, NodeTaint } from "../kubelet/build-node.ts";
import { type FindLog, startKubeletServer } from "../kubelet/kubelet-server.ts";
import { makeStopSignal } from "../kubelet/container-event-recorder.ts";
import { buildClusterAccess } from "../kubelet/cluster-access.ts";
import { makeKubeletCertificate } from "../kubelet/kubelet-certificate.ts";
import { makeNodeApi } from "../kubelet/node-api.ts";
import { readSystem } from "../kubelet/node-heartbeat.ts";
import type { KubeletOptions } from "../kubelet/start-kubelet.ts";
import { startControlPlane } from "../start-control-plane.ts";
import { withoutManagedFields } from "../without-managed-fields.ts";
import { MAX_SIMULATED_NODES } from "./node-addresses.ts";
import { type NodeBeats, startBeats } from "./node-beats.ts";
import { SimulatedNode } from "./simulated-node.ts";

export type SimulatedPool = {
  readonly nodes: number;
  readonly labels?: Readonly<Record<string, string>>;
  /** The taints of a node at its creation. */
  readonly taints?: readonly NodeTaint[];
  readonly capacity?: Readonly<Record<string, string>>;
};

export type SimulatedNodesOptions = Pick<KubeletOptions, "api" | "certificate" | "now" | "onError"> & {
  /** The kubeconfig file. */
  readonly kubeconfig: string;
  /** The number of nodes, or their description, by pool. Nodes are named `<pool>-0`, `<pool>-1`, and labelled `pool=<pool>`. */
  readonly pools: Readonly<Record<string, number | SimulatedPool>>;
  /** Authorizes readers of logs; default: client certificates of the cluster's client authority. */
  readonly access?: KubeletOptions["access"];
  /** Whether to start a scheduler and the node lifecycle; default true. False for a cluster that has its own. */
  readonly controlPlane?: boolean;
  /** A node whose lease is not renewed for this time is NotReady; default 40000. */
  readonly nodeGraceMs?: number;
  /** The interval between two renewals of a node's lease; default 10000. */
  readonly leaseEveryMs?: number;
};

/** Nodes without processes. Disposal marks live nodes as not ready, and leaves pods unchanged. */
export type SimulatedNodes = AsyncDisposable & {
  readonly names: readonly string[];
  /** Returns the number of pods that the nodes manage now. */
  readonly podCount: () => number;
  /**
   * Ends the running containers of a pod (`namespace/name`) as if by themselves, with this exit code (default 0). Throws not_found if none runs.
   */
  readonly finish: (pod: string, exitCode?: number) => void;
  /** Turns the machine off: heartbeats stop, its pods stay in the API, and its containers are lost. Resolves when its last request has ended. */
  readonly kill: (name: string) => Promise<void>;
  /** Lets machine and kubelet hang until `thaw`: no report, and no reaction to commands. */
  readonly freeze: (name: string) => void;
  readonly thaw: (name: string) => Promise<void>;
  /**
   * Starts a machine that is off, whose containers count as lost, or restarts the kubelet of a running one, which keeps its pods. Registers a deleted node
   * again.
   */
  readonly restart: (name: string) => Promise<void>;
  /** Kills the machine and deletes its Node object, as a cloud does. */
  readonly delete: (name: string) => Promise<void>;
  /** Adds a machine. Resolves when its node is ready; throws already_exists for a name in use. */
  readonly add: (name: string, machine: Omit<SimulatedPool, "nodes">) => Promise<void>;
  /** Removes the machine after a report that it is not ready; its Node object stays. */
  readonly retire: (name: string) => Promise<void>;
  /** Removes the machine without a report; its Node object stays. */
  readonly lose: (name: string) => Promise<void>;
};

const DEFAULT_CAPACITY = { cpu: "4", memory: "8Gi", "ephemeral-storage": "100Gi", pods: "110" };
const TICK_MS = 20;
const CALL_TIMEOUT_MS = 15_000;
const LEASE_EVERY_MS = 10_000;

/**
 * Starts hundreds of nodes that simulate their pods: each container follows the script in its command, see `readScript`. Resolves when every node is ready.
 */
export async function startSimulatedNodes(options: SimulatedNodesOptions): Promise<SimulatedNodes> {
  const { now = Date.now, onError = () => undefined } = options;
  const kubeconfig = loadKube(options.kubeconfig);
  const { api = makeRemoteApi(kubeconfig) } = options;
  const wanted = namedNodes(options.pools);
  await using started = new AsyncDisposableStack();
  const calls = started.use(api.calls({ timeoutMs: CALL_TIMEOUT_MS }));
  const stopped = makeStopSignal(started);
  if (options.controlPlane !== false) started.use(await startControlPlane({ ...options, kubeconfig }));

  const nodes = new Map<string, SimulatedNode>();
  const server = started.use(
    await startKubeletServer({
      certificate: options.certificate ?? (await makeKubeletCertificate()),
      access: options.access ?? (await buildClusterAccess(kubeconfig)),
      now,
      findLog: (which) => findLog({ nodes, pod: (key) => pods.get(key) }, which),
      findExec: ({ container }) => ({
        found: false,
        status: 400,
        message: `container "${container}" is simulated: no command runs in it`,
      }),
    }),
  );
  const follow = <Kind extends KubeObject>(source: ListWatch<Kind>, doing: string): Informer<Kind> =>
    started.use(openInformer({ source, project: withoutManagedFields, onError: (error) => onError(error, doing) }));
  const bound = api.listWatch<V1Pod>("/api/v1/pods", { fieldSelector: "spec.nodeName!=" });
  const pods: Informer<V1Pod> = follow(bound, "watching the pods of simulated nodes");
  started.defer(() => Promise.all([...nodes.values()].map((node) => node.kill())).then(() => undefined));
  await pods.synced;
  const system = readSystem();
  const make: MakeNode = (name, index, machine) => {
    const facts = buildFacts(name, machine, { port: server.port, system });
    const node = new SimulatedNode(facts, index, { calls, now, pod: (key) => pods.get(key), onError, stopped });
    nodes.set(name, node);
    return node;
  };
  for (const [index, { name, pool }] of wanted.entries()) make(name, index, pool);
  const nodeOf = (pod: V1Pod | undefined): SimulatedNode | undefined => nodes.get(pod?.spec?.nodeName ?? "");
  pods.onChange(({ before, after }) => nodeOf(after ?? before)?.changed(before, after));
  for (const pod of pods.list()) nodeOf(pod)?.changed(undefined, pod);

  const ticker = setInterval(() => {
    const nowMs = now();
    for (const node of nodes.values()) node.tick(nowMs);
  }, TICK_MS);
  started.defer(() => clearInterval(ticker));
  const beats = started.use(
    await startBeats({
      nodes: [...nodes.values()],
      api: makeNodeApi(calls, now),
      seen: follow(api.listWatch<V1Node>("/api/v1/nodes"), "watching simulated nodes"),
      leaseEveryMs: options.leaseEveryMs ?? LEASE_EVERY_MS,
      onError,
    }),
  );
  const all = started.move();
  return {
    names: [...nodes.keys()],
    podCount: () => [...nodes.values()].reduce((sum, node) => sum + node.podCount(), 0),
    finish: (key, exitCode = 0) => {
      const pod = pods.get(key);
      const isFinished = pod !== undefined && nodeOf(pod)?.finish(pod, exitCode) === true;
      if (!isFinished) throwFault({ code: "not_found", kind: "pod", id: key });
    },
    ...controls(nodes, pods, beats),
    ...restartNodes(nodes, beats, make),
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

type Machine = Omit<SimulatedPool, "nodes">;
type MakeNode = (name: string, index: number, machine: Machine) => SimulatedNode;

function buildFacts(
  name: string,
  { labels = {}, taints, capacity }: Machine,
  server: Pick<NodeFacts, "port" | "system">,
): NodeFacts {
  const ownTaints = taints === undefined ? {} : { taints };
  return { name, labels, ...ownTaints, capacity: { ...DEFAULT_CAPACITY, ...capacity }, ...server };
}

function controls(
  nodes: ReadonlyMap<string, SimulatedNode>,
  pods: Informer<V1Pod>,
  beats: NodeBeats,
): Pick<SimulatedNodes, "kill" | "freeze" | "thaw" | "restart" | "delete"> {
  const find = (name: string): SimulatedNode =>
    nodes.get(name) ?? throwFault({ code: "not_found", kind: "node", id: name });
  return {
    kill: (name) => find(name).kill(),
    freeze: (name) => find(name).freeze(),
    thaw: async (name) => {
      const node = find(name);
      node.thaw();
      await beats.report(node);
    },
    restart: async (name) => {
      const node = find(name);
      if (node.state() === "dead") node.boot(pods.list().filter((pod) => pod.spec?.nodeName === name));
      else {
        node.freeze();
        await turn();
        node.thaw();
      }
      await beats.register(node);
    },
    delete: async (name) => {
      const node = find(name);
      await node.kill();
      await beats.remove(node);
    },
  };
}

function restartNodes(
  nodes: Map<string, SimulatedNode>,
  beats: NodeBeats,
  make: MakeNode,
): Pick<SimulatedNodes, "add" | "retire" | "lose"> {
  const used = new Map([...nodes.keys()].map((name, index) => [name, index]));
  const forget = async (name: string, node: SimulatedNode): Promise<void> => {
    beats.drop(node);
    await node.kill();
    nodes.delete(name);
    used.delete(name);
  };
  const find = (name: string): SimulatedNode =>
    nodes.get(name) ?? throwFault({ code: "not_found", kind: "node", id: name });
  return {
    add: async (name, machine) => {
      if (nodes.has(name)) throwFault({ code: "already_exists", kind: "node", id: name });
      const taken = new Set(used.values());
      let index = 0;
      while (taken.has(index)) index += 1;
      if (index >= MAX_SIMULATED_NODES) {
        throwFault({ code: "limit_exceeded", what: "simulated nodes", limit: MAX_SIMULATED_NODES, retryAfterMs: 0 });
      }
      used.set(name, index);
      const node = make(name, index, machine);
      try {
        await beats.adopt(node);
      } catch (error) {
        await forget(name, node);
        throw error;
      }
    },
    retire: async (name) => {
      const node = find(name);
      await forget(name, node);
      await beats.takeLeave(node);
    },
    lose: (name) => forget(name, find(name)),
  };
}

function namedNodes(pools: SimulatedNodesOptions["pools"]): { readonly name: string; readonly pool: SimulatedPool }[] {
  const all = Object.entries(pools).flatMap(([poolName, given]) => {
    const pool = typeof given === "number" ? { nodes: given } : given;
    const labels = { pool: poolName, ...pool.labels };
    return Array.from({ length: pool.nodes }, (_, index) => ({
      name: `${poolName}-${index}`,
      pool: { ...pool, labels },
    }));
  });
  const limit = MAX_SIMULATED_NODES;
  return all.length <= limit
    ? all
    : throwFault({ code: "limit_exceeded", what: "simulated nodes", limit, retryAfterMs: 0 });
}

function findLog(
  world: { readonly nodes: ReadonlyMap<string, SimulatedNode>; readonly pod: (key: string) => V1Pod | undefined },
  which: Parameters<FindLog>[0],
): ReturnType<FindLog> {
  const pod = world.pod(`${which.namespace}/${which.pod}`);
  const node = world.nodes.get(pod?.spec?.nodeName ?? "");
  if (pod === undefined || node === undefined) {
    return { found: false, status: 404, message: `pod "${which.pod}" is not on a node of this simulation` };
  }
  // The nodes share one server, which must not answer for a node that is off or hangs.
  if (node.state() !== "alive") throw new Error(`node ${node.facts.name} is ${node.state()}`);
  return node.findLog(pod, which.container, which.previous);
}
