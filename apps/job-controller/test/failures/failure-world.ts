import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { CoreV1Event, V1Pod } from "@kubernetes/client-node";
import { startFaultyApi, startSimulatedNodes, type FaultyApi, type SimulatedNodes } from "@muster/devcluster";
import { toKubeFault, type KubeObject, type KubeResource } from "@muster/kube";
import { findFreePort, startOtlpCollector, until, type ApiServerCase, type OtlpCollector } from "@muster/testkit";
import { buildOwnerId } from "../../src/domain/build-units.ts";
import { openJobWorld, type Controller, type JobWorld, type TestJob } from "../job-world.ts";

export const NAMESPACE = "default";
export const PODS: KubeResource = { apiVersion: "v1", plural: "pods", namespace: NAMESPACE };
export const SERVICES: KubeResource = { apiVersion: "v1", plural: "services", namespace: NAMESPACE };
export const BUDGETS: KubeResource = {
  apiVersion: "policy/v1",
  plural: "poddisruptionbudgets",
  namespace: NAMESPACE,
};

/** A large pool for jobs that need not wait, and small pools whose machines are counted. */
export const POOLS = { crowd: 60, plenty: 40, tight: 2, lossy: 5, silent: 3, worn: 2 };
const SYNC_PERIOD_MS = 1000;

/** A world of simulated nodes, with an API that can fail for the controllers alone, and two controllers. */
export type FailureWorld = JobWorld & {
  readonly nodes: SimulatedNodes;
  readonly api: FaultyApi;
  readonly collector: OtlpCollector;
  /** Starts a replica; the failing API identifies it by `who`. */
  startReplica(who?: string): Promise<Controller>;
  /** Deletes the job, and its objects if no garbage collector does. */
  removeWhole(name: string): Promise<void>;
  pod(name: string): Promise<V1Pod | undefined>;
  /** Waits until the condition holds for the pod of this name, and returns the pod. */
  untilPod(name: string, condition: (pod: V1Pod) => boolean): Promise<V1Pod>;
  untilRunning(name: string, except?: string): Promise<V1Pod>;
  /** Ends the programs of these pods with this exit code (default 0). Pods run for as long as a test needs them, however slow the machine is. */
  finish(names: readonly string[], exitCode?: number): void;
  /** Returns the reasons of the events of this object. */
  eventsOf(name: string): Promise<readonly string[]>;
  /** Waits until the ledger has no unit of this job. */
  untilReturned(job: TestJob): Promise<void>;
  heldBy(job: TestJob): Promise<number>;
  /** Waits until the leader has made this many more passes over every job. */
  untilPasses(count: number): Promise<void>;
};

/** Starts everything that suites of failures share. */
export async function openFailureWorld(server: ApiServerCase): Promise<FailureWorld> {
  await using starting = new AsyncDisposableStack();
  const directory = await mkdtemp(join(tmpdir(), "muster-job-failures-"));
  starting.defer(() => rm(directory, { recursive: true, force: true }));
  const collector = starting.use(await startOtlpCollector());
  const apiServer = await server.start();
  let nodes: SimulatedNodes | undefined;
  const world = starting.use(
    await openJobWorld(apiServer, POOLS, {
      definitions: ["muster.dev_jobs.yaml", "kubeflow.org_jaxjobs.yaml"],
      startNodes: async (kubeconfig, pools) => {
        nodes = await startSimulatedNodes({
          kubeconfig,
          pools,
          nodeGraceMs: 15_000,
          leaseEveryMs: 3000,
          ...apiServer.nodeOptions,
        });
        return nodes;
      },
    }),
  );
  if (nodes === undefined) throw new Error("the world has started without its nodes");
  const running = nodes;
  const api = starting.use(await startFaultyApi({ kubeconfig: world.kubeconfig, directory, seed: 1 }));
  const stack = starting.move();
  const ports: number[] = [];
  return {
    ...world,
    ...looking(world, ports),
    nodes,
    finish: (names, exitCode) => {
      for (const name of names) running.finish(`${NAMESPACE}/${name}`, exitCode);
    },
    api,
    collector,
    startReplica: async (who) => {
      const port = await findFreePort();
      ports.push(port);
      return world.startController({
        MUSTER_HTTP_ADDR: `127.0.0.1:${port}`,
        MUSTER_KUBECONFIG: who === undefined ? api.kubeconfig : await api.kubeconfigFor(who),
        ...collector.variables,
        JOB_SYNC_PERIOD_MS: `${SYNC_PERIOD_MS}`,
        JOB_NODE_LOST_MS: "500",
        JOB_REFUSED_RETRY_MS: "500",
        JOB_REQUEST_TIMEOUT_MS: "5000",
      });
    },
    removeWhole: async (name) => {
      const job = await world.get(name);
      await world.remove(name);
      if (server.isReal && job !== undefined) await collectGarbage(world, job);
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

/** Acts as the garbage collector of a whole cluster on a deleted job. */
export async function collectGarbage(world: JobWorld, job: TestJob): Promise<void> {
  for (const resource of [PODS, SERVICES, BUDGETS]) {
    const { items } = await world.calls.list<KubeObject>(resource);
    const owned = items.filter((each) => each.metadata?.ownerReferences?.some(({ uid }) => uid === job.metadata.uid));
    for (const { metadata } of owned) await world.calls.delete(resource, metadata?.name ?? "").catch(unlessGone);
  }
}

export function unlessGone(error: unknown): void {
  if (toKubeFault(error)?.code !== "not_found") throw error;
}

type Looking = Pick<
  FailureWorld,
  "pod" | "untilPod" | "untilRunning" | "eventsOf" | "untilReturned" | "heldBy" | "untilPasses"
>;

/** Returns functions that read the world. `ports` are those of the replicas' metrics. */
function looking(world: JobWorld, ports: readonly number[]): Looking {
  const pod = async (name: string): Promise<V1Pod | undefined> => {
    try {
      return await world.calls.get<V1Pod>(PODS, name);
    } catch (error) {
      unlessGone(error);
      return undefined;
    }
  };
  const untilPod = (name: string, condition: (pod: V1Pod) => boolean): Promise<V1Pod> =>
    until(
      `pod ${name} is as it should be`,
      async () => {
        const there = await pod(name);
        return there !== undefined && condition(there) && there;
      },
      { timeoutMs: 90_000, everyMs: 50 },
    );
  const heldBy = async (job: TestJob): Promise<number> => {
    const { name, uid = "" } = job.metadata;
    const id = buildOwnerId({ name, uid });
    const { reservations } = await world.ledger.listReservations({ ownerKind: "job" });
    return reservations.filter(({ owner }) => owner?.id === id || owner?.id.startsWith(`${id}--`) === true).length;
  };
  const valueOf = (text: string, metric: string): number =>
    Number(new RegExp(`^${metric}\\{[^}]*muster_controller_name="Job"[^}]*\\} (\\d+)`, "m").exec(text)?.[1] ?? 0);
  /** Returns the resyncs of the leading replica; the others run no controller. */
  const resyncsOfLeader = async (): Promise<number> => {
    const scrapes = ports.map((port) =>
      fetch(`http://127.0.0.1:${port}/metrics`).then(
        (answer) => answer.text(),
        () => "",
      ),
    );
    const texts = await Promise.all(scrapes);
    return texts.reduce((total, text) => total + valueOf(text, "muster_controller_resyncs_total"), 0);
  };
  return {
    pod,
    untilPod,
    heldBy,
    untilRunning: (name, except) =>
      untilPod(
        name,
        ({ metadata, status }) =>
          metadata?.uid !== except && metadata?.deletionTimestamp === undefined && status?.phase === "Running",
      ),
    eventsOf: async (name) => {
      const { items } = await world.calls.list<CoreV1Event>({
        apiVersion: "v1",
        plural: "events",
        namespace: NAMESPACE,
      });
      return items.filter(({ involvedObject }) => involvedObject.name === name).map(({ reason }) => reason ?? "");
    },
    untilReturned: async (job) => {
      const returned = async (): Promise<boolean> => (await heldBy(job)) === 0;
      await until(`the ledger has nothing of ${job.metadata.name}`, returned, { timeoutMs: 60_000, everyMs: 50 });
    },
    untilPasses: async (count) => {
      const before = await resyncsOfLeader();
      // The current period may have begun before, and the keys of the last one may still wait.
      const isOver = async (): Promise<boolean> => (await resyncsOfLeader()) >= before + count + 2;
      await until(`every job has ${count} more passes`, isOver, { timeoutMs: 60_000, everyMs: 50 });
    },
  };
}
