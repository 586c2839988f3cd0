import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { V1Node, V1Pod } from "@kubernetes/client-node";
import { makeClient, connectNats, type Client, type NatsBus } from "@muster/bus";
import { attachNodes, type AttachedNodes } from "@muster/devcluster";
import { findFault } from "@muster/faults";
import { makeKubeCalls, loadKube, type KubeCalls } from "@muster/kube";
import { FarmService, muster, streams, subjects } from "@muster/proto";
import {
  startTestNats,
  buildProcessEnv,
  type TestApiServer,
  type TestNats,
  until,
  makePatientClient,
} from "@muster/testkit";

const APPS = fileURLToPath(new URL("../../", import.meta.url));
const NODES = { apiVersion: "v1", plural: "nodes" };
export const PODS = { apiVersion: "v1", plural: "pods", namespace: "default" };

export type FarmProcess = {
  readonly pid: number;
  /** SIGKILL: it ends without notice. */
  kill(): Promise<void>;
  /** SIGTERM: the farm releases its sets. */
  stop(): Promise<void>;
};

/** A bus, a cluster whose pods are real processes, the watcher, and as many farms as a test starts. */
export type FarmWorld = AsyncDisposable & {
  readonly nats: TestNats;
  readonly bus: NatsBus;
  readonly calls: KubeCalls;
  readonly farms: Client<typeof FarmService>;
  readonly watcher: FarmProcess;
  /** The kubelets of the nodes, in the order of the nodes. */
  readonly kubelets: AttachedNodes["nodes"];
  startFarm(env?: Readonly<Record<string, string>>): Promise<FarmProcess>;
  /** The ledger of machines; the nodes are pool `n`. */
  startLedger(): Promise<FarmProcess>;
  /** The one that is there has to be killed before. */
  startWatcher(): Promise<FarmProcess>;
  /** One after the other, in the order of the calls: a farm that has not seen all of them yet has seen the first ones, and places on these. */
  label(node: string, labels: Readonly<Record<string, string | null>>): Promise<void>;
  pods(set: string): Promise<V1Pod[]>;
};

/** Nodes n-0, n-1, ... without a label of their own. */
export async function openFarmWorld(server: TestApiServer, nodes: number): Promise<FarmWorld> {
  await using starting = new AsyncDisposableStack();
  starting.use(server);
  const { kubeconfig } = server;
  const { nodes: kubelets } = starting.use(
    await attachNodes({
      kubeconfig,
      pools: [{ name: "n", nodes }],
      stopGraceMs: 200,
      // A node is lost only at a command of a test, not because the machine is busy.
      nodeGraceMs: 3_600_000,
      ...server.nodeOptions,
    }),
  );
  const nats = starting.use(await startTestNats());
  let stack = starting;
  const start = async (app: string, more: Readonly<Record<string, string>>): Promise<ChildProcess> => {
    const child = spawn(process.execPath, [`${APPS}${app}/src/main.ts`], {
      env: {
        ...buildProcessEnv(),
        MUSTER_NATS_URL: nats.url,
        MUSTER_NATS_TOKEN: nats.token,
        MUSTER_KUBECONFIG: kubeconfig,
        MUSTER_LOG_LEVEL: process.env["MUSTER_LOG_LEVEL"] ?? "error",
        ...more,
      },
      stdio: ["ignore", "inherit", "inherit"],
    });
    await once(child, "spawn");
    stack.defer(() => ended(child));
    return child;
  };
  const bus = starting.use(await connectNats({ url: nats.url, token: nats.token, name: "test" }));
  const calls = starting.use(makeKubeCalls(loadKube(kubeconfig)));
  const watcher = processOf(await start("watcher", {}));
  const farms = makePatientClient(makeClient(bus, FarmService));
  stack = starting.move();
  let labelled: Promise<unknown> = Promise.resolve();
  return {
    nats,
    bus,
    calls,
    farms,
    watcher,
    kubelets,
    startLedger: async () => processOf(await start("reservation-manager", { RESERVATION_LOCK_TTL_MS: "5000" })),
    startWatcher: async () => processOf(await start("watcher", {})),
    startFarm: async (env = {}) => {
      const child = await start("replication-farm", {
        FARM_SESSION_TTL_MS: "3000",
        FARM_SWEEP_MS: "500",
        FARM_TRANSFER_RETRY_MS: "200",
        ...env,
      });
      return processOf(child);
    },
    label: (node, labels) => {
      const body = { metadata: { labels } };
      labelled = labelled.catch(() => undefined).then(() => calls.patch<V1Node>(NODES, node, { kind: "merge", body }));
      return labelled.then(() => undefined);
    },
    pods: async (set) => {
      const query = { labelSelector: `replication_controller_id=${set}` };
      return [...(await calls.list<V1Pod>(PODS, { query })).items];
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

function processOf(child: ChildProcess): FarmProcess {
  return { pid: child.pid ?? 0, kill: () => ended(child), stop: () => ended(child, "SIGTERM") };
}

async function ended(child: ChildProcess, signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, "exit");
  child.kill(signal);
  await exit;
}

const { ALLOCATION_STRATEGY_DYNAMIC } = muster.farm.v1.AllocationStrategy;

/** A pod that runs until it is reported to end, and reports nothing; `version` makes the template another one. */
export function buildTemplate(version = "1"): string {
  const container = {
    name: "main",
    image: "scripted",
    command: ["sleep", "100000"],
    env: [{ name: "V", value: version }],
  };
  return JSON.stringify({ spec: { terminationGracePeriodSeconds: 1, containers: [container] } });
}

export type SpecProperties = muster.farm.v1.ReplicaSetSpec.$Properties;

export function buildSpec(selector: string, replicasDesired: number, more: SpecProperties = {}): SpecProperties {
  return {
    templateJson: buildTemplate(),
    nodeSelector: selector,
    replicasDesired,
    allocationStrategy: ALLOCATION_STRATEGY_DYNAMIC,
    minReadySeconds: 0,
    ...more,
  };
}

type WireSet = muster.farm.v1.ReplicaSet.$Properties;

export function listNodes(set: WireSet): string[] {
  return (set.record?.placements ?? []).map(({ node }) => node ?? "");
}

/** Waits until the set is on so many nodes and all its pods are healthy. */
export function waitForSettled(world: FarmWorld, name: string, count: number): Promise<WireSet> {
  return until(
    `${name} has ${count} healthy replicas`,
    async () => {
      const { set } = await world.farms.getReplicaSet({ name });
      const isThere = set?.record?.placements.length === count && set.healthy === count && !set.record.transfer;
      return isThere ? set : undefined;
    },
    { timeoutMs: 90_000, everyMs: 100 },
  );
}

/** Waits until a farm answers. */
export async function waitUntilReady(world: FarmWorld): Promise<void> {
  await until(
    "a farm answers",
    () =>
      world.farms.listReplicaSets({}, { timeoutMs: 2000 }).then(
        () => true,
        () => false,
      ),
    { timeoutMs: 110_000 },
  );
}

/** Waits for an alert on the bus, of a farm that has started. */
export async function waitForAlert({ bus }: FarmWorld, incident: string): Promise<void> {
  await until(
    `there is an alert ${incident}`,
    () => bus.readMessage(streams.events.name, subjects.farmAlerted(incident), 1),
    { timeoutMs: 90_000, everyMs: 50 },
  );
}

/** The events of the set's trail, the oldest first, once all of them are on their stream. */
export async function listAudits({ farms }: FarmWorld, name: string): Promise<(string | null | undefined)[]> {
  const isPublished = async (): Promise<boolean> =>
    (await farms.getReplicaSet({ name })).set?.record?.outbox.length === 0;
  await until(`all audits of ${name} are published`, isPublished);
  return (await farms.listAudit({ name })).records.map(({ eventType }) => eventType);
}

/** Whether the requested object does not exist. */
export function isMissing(answer: Promise<unknown>): Promise<boolean> {
  return answer.then(
    () => false,
    (error: unknown) => findFault(error)?.code === "not_found",
  );
}
