import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { V1ContainerStatus, V1Pod } from "@kubernetes/client-node";
import { startFaultyApi, type FaultyApi } from "@muster/devcluster";
import {
  openInformer,
  makeKubeCalls,
  listWatch,
  loadKube,
  unlessFault,
  type KubeCalls,
  type KubeObject,
} from "@muster/kube";
import { labels } from "@muster/proto";
import { startKubeControllers, until, findMissingControllers, type TestApiServer } from "@muster/testkit";
import { KINDS } from "../src/types/object-kinds.ts";
import { API_SERVERS } from "./api-servers.ts";
import { limitToRights } from "./engine-rights.ts";
import { openEngineWorld, LONG, waitUntilReady, type EngineProcess, type EngineWorld } from "./engine-world.ts";

const MAIN = fileURLToPath(new URL("cluster-engine.process.ts", import.meta.url));

/** A cluster without nodes, where the test sets the status of pods, with engines on it. */
export type ClusterWorld = AsyncDisposable & {
  readonly engines: EngineWorld;
  /** With all rights, and without injected faults. */
  readonly calls: KubeCalls;
  /** The engines' access to the cluster; a real one grants only the rights of deploy/kubernetes. */
  readonly faults: FaultyApi;
  startEngine(env?: Readonly<Record<string, string>>): Promise<EngineProcess>;
  /** The next call for the lease kills its engine, after its effect. */
  killAfterCall(lease: string): Promise<void>;
  /** The objects of the lease of all kinds that engines create, and its pods. */
  left(lease: string): Promise<string[]>;
  /** Sets the number of exits of the lease's container. */
  exits(lease: string, count: number): Promise<void>;
};

/** Controllers of Kubernetes that a real API server needs for the objects of leases. */
export const CONTROLLERS = [
  "garbage-collector-controller",
  "namespace-controller",
  "deployment-controller",
  "replicaset-controller",
  "persistentvolumeclaim-protection-controller",
  "resourcequota-controller",
];

/** The clusters that workloads run in; the embedded one has its own controllers. */
export const CLUSTERS = API_SERVERS.map((server) => {
  const lacking = server.isReal && !server.skip ? findMissingControllers() : undefined;
  if (lacking === undefined) return server;
  return { ...server, skip: true, title: `${server.title} (skipped: ${lacking})` };
});

export async function openClusterWorld(server: (typeof CLUSTERS)[number]): Promise<ClusterWorld> {
  await using starting = new AsyncDisposableStack();
  const directory = starting.use(await mkdtempDisposable(join(tmpdir(), "muster-leases-"))).path;
  const { kubeconfig } = starting.use(await startServer(server));
  const calls = starting.use(makeKubeCalls(loadKube(kubeconfig)));
  const limited = server.isReal ? await limitToRights(kubeconfig, calls, directory) : kubeconfig;
  const faults = starting.use(await startFaultyApi({ kubeconfig: limited, directory, seed: 1 }));
  const pods = starting.use(playKubelet(kubeconfig, calls));
  const engines = starting.use(await openEngineWorld());
  const all = starting.move();
  return {
    engines,
    calls,
    faults,
    exits: pods.exits,
    startEngine: async (env = {}) => {
      const own = { MUSTER_KUBECONFIG: faults.kubeconfig, FILES: directory };
      const engine = await engines.startEngine({ ...own, ...env }, MAIN);
      await waitUntilReady(engines);
      return engine;
    },
    killAfterCall: (lease) => writeFile(join(directory, `${lease}.kill`), ""),
    left: async (lease) => {
      const query = { labelSelector: `${labels.lease}=${lease}` };
      const pages = await Promise.all(Object.values(KINDS).map((kind) => calls.list<KubeObject>(kind, { query })));
      return pages.flatMap(({ items }, at) =>
        items.map(({ metadata }) => `${Object.values(KINDS)[at]?.kind ?? ""} ${metadata?.name ?? ""}`),
      );
    },
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

async function startServer({ start, isReal }: (typeof CLUSTERS)[number]): Promise<TestApiServer> {
  await using starting = new AsyncDisposableStack();
  const server = starting.use(await start());
  if (isReal) starting.use(await startKubeControllers(server.kubeconfig, CONTROLLERS));
  const all = starting.move();
  return { ...server, [Symbol.asyncDispose]: () => all.disposeAsync() };
}

/** A pod that asks for more processors than this finds no node. */
const MAX_CPUS = 100;
export const NO_ROOM = "0/8 nodes are available: 8 Insufficient cpu.";

/** Runs each pod of a lease that fits a node immediately, without a kubelet, so that its deletion waits for nothing. */
function playKubelet(kubeconfig: string, calls: KubeCalls) {
  const isGone = (pod: V1Pod): boolean => pod.metadata?.deletionTimestamp !== undefined;
  const report = async ({ metadata }: V1Pod, container: Partial<V1ContainerStatus>): Promise<void> => {
    const { name = "", namespace = "" } = metadata ?? {};
    const now = new Date().toISOString();
    const isRunning = container.state?.running !== undefined;
    const status = {
      phase: "Running",
      conditions: [{ type: "Ready", status: isRunning ? "True" : "False", lastTransitionTime: now }],
      containerStatuses: [{ name: "main", image: "i", imageID: "", ready: isRunning, restartCount: 0, ...container }],
    };
    const statusPatch = { kind: "merge", body: { status } } as const;
    await until(
      `pod ${name} is ${isRunning ? "running" : "down"}`,
      async () => {
        await unlessFault(calls.patch({ ...KINDS.pod, namespace }, name, statusPatch, STATUS), "not_found");
        return true;
      },
      LONG,
    );
  };
  const refuse = async ({ metadata }: V1Pod): Promise<void> => {
    const { name = "", namespace = "" } = metadata ?? {};
    const unscheduled = { type: "PodScheduled", status: "False", reason: "Unschedulable", message: NO_ROOM };
    const statusPatch = { kind: "merge", body: { status: { phase: "Pending", conditions: [unscheduled] } } } as const;
    await unlessFault(calls.patch({ ...KINDS.pod, namespace }, name, statusPatch, STATUS), "not_found");
  };
  const running = () => ({ running: { startedAt: new Date().toISOString() as never } });
  const pods = openInformer<V1Pod, V1Pod>({
    source: listWatch(loadKube(kubeconfig), "/api/v1/pods", { labelSelector: labels.lease }),
    project: (pod) => pod,
  });
  const failures: unknown[] = [];
  const starting = new Set<Promise<unknown>>();
  pods.onChange(({ before, after }) => {
    if (before !== undefined || after === undefined || isGone(after) || after.status?.phase === "Running") return;
    const asked = Number(after.spec?.containers[0]?.resources?.requests?.["cpu"] ?? 0);
    const begun = asked > MAX_CPUS ? refuse(after) : report(after, { state: running() });
    const start = begun.catch((error: unknown) => failures.push(error));
    starting.add(start);
    void start.finally(() => starting.delete(start));
  });
  return {
    exits: async (lease: string, count: number): Promise<void> => {
      const pod = await until(
        `the pod of ${lease} is there`,
        () => pods.list().find((each) => each.metadata?.labels?.[labels.lease] === lease && !isGone(each)),
        LONG,
      );
      const finishedAt = new Date().toISOString();
      const terminated = { exitCode: 3, reason: "Error", startedAt: finishedAt, finishedAt } as never;
      await report(pod, { restartCount: count, state: running(), lastState: { terminated } });
    },
    [Symbol.asyncDispose]: async () => {
      await pods[Symbol.asyncDispose]();
      await Promise.all(starting);
      if (failures.length > 0) throw new AggregateError(failures, "pods could not be started");
    },
  };
}

const STATUS = { subresource: "status" };
