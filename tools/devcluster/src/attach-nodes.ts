import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { throwFault } from "@muster/faults";
import { loadKube } from "@muster/kube";
import { claimDirectory } from "./kubelet/claim-directory.ts";
import { buildClusterAccess } from "./kubelet/cluster-access.ts";
import { MAX_NODES } from "./kubelet/pod-addresses.ts";
import { killLeftovers } from "./kubelet/process-tree.ts";
import { type Kubelet, type KubeletOptions, startKubelet } from "./kubelet/start-kubelet.ts";
import { startControlPlane } from "./start-control-plane.ts";

export type NodePool = {
  readonly name: string;
  /** The nodes are named `<name>-0`, `<name>-1`, and labelled `pool=<name>`. */
  readonly nodes: number;
  readonly labels?: Readonly<Record<string, string>>;
  readonly capacity?: Readonly<Record<string, string>>;
};

export type AttachOptions = Pick<KubeletOptions, "api" | "certificate" | "path" | "stopGraceMs" | "now" | "onError"> & {
  /** Path of the kubeconfig of the API server. */
  readonly kubeconfig: string;
  readonly pools: readonly NodePool[];
  /** Logs, working directories and records of processes; absent: a temporary directory that is removed at the end. */
  readonly directory?: string;
  /** The clients that may read logs; by default those with certificates of the authority that the cluster publishes. */
  readonly access?: KubeletOptions["access"];
  /** Whether to start a scheduler and the node lifecycle; default true. False for a cluster that has its own. */
  readonly controlPlane?: boolean;
  /** Time without a heartbeat after which a node is NotReady; default 40000. */
  readonly nodeGraceMs?: number;
};

export type AttachedNodes = AsyncDisposable & { readonly nodes: readonly Kubelet[] };

/** Adds a scheduler, and nodes that run pods as local processes, to an API server. Resolves once every node is ready; disposing ends the processes first. */
export async function attachNodes(options: AttachOptions): Promise<AttachedNodes> {
  const { kubeconfig: file, pools, directory: given, access: named, controlPlane = true, ...shared } = options;
  const count = pools.reduce((sum, pool) => sum + pool.nodes, 0);
  if (count > MAX_NODES) throwFault({ code: "limit_exceeded", what: "nodes", limit: MAX_NODES, retryAfterMs: 0 });
  const kubeconfig = loadKube(file);
  await using started = new AsyncDisposableStack();
  const directory = given ?? temporaryDirectory(started);
  const access = named ?? (await buildClusterAccess(kubeconfig));
  if (controlPlane) started.use(await startControlPlane({ ...shared, kubeconfig }));

  const wanted = pools.flatMap((pool) => Array.from({ length: pool.nodes }, (_, index) => buildNode(pool, index)));
  // Processes of a node that an earlier cluster had and this one lacks would run forever.
  await endLeftovers(
    directory,
    wanted.map((node) => node.nodeName),
  );
  const results = await Promise.allSettled(
    wanted.map((node, nodeIndex) =>
      startKubelet({
        ...shared,
        ...node,
        kubeconfig,
        nodeIndex,
        access,
        directory: join(directory, node.nodeName),
      }),
    ),
  );
  const nodes = results.flatMap((result) => (result.status === "fulfilled" ? [result.value] : []));
  started.defer(async () => {
    await Promise.all(nodes.map((node) => node[Symbol.asyncDispose]()));
  });
  for (const result of results) if (result.status === "rejected") throw result.reason;
  const all = started.move();
  return { nodes, [Symbol.asyncDispose]: () => all.disposeAsync() };
}

function buildNode(pool: NodePool, index: number): Pick<KubeletOptions, "nodeName" | "labels" | "capacity"> {
  return {
    nodeName: `${pool.name}-${index}`,
    labels: { pool: pool.name, ...pool.labels },
    ...(pool.capacity === undefined ? {} : { capacity: pool.capacity }),
  };
}

/**
 * Ends the processes that nodes below this directory left behind when their kubelet was killed, for a supervisor that does not restart them. Throws
 * already_exists if a live process uses one of them. The nodes of `except` end theirs at their own start.
 */
export async function endLeftovers(directory: string, except: readonly string[] = []): Promise<void> {
  if (!existsSync(directory)) return;
  for (const name of readdirSync(directory)) {
    if (except.includes(name) || !existsSync(join(directory, name, "processes"))) continue;
    using _claim = claimDirectory(join(directory, name));
    await killLeftovers(join(directory, name));
  }
}

function temporaryDirectory(started: AsyncDisposableStack): string {
  const directory = mkdtempSync(join(tmpdir(), "muster-nodes-"));
  started.defer(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}
