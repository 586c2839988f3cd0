import { connectNats, type NatsBus } from "@muster/bus";
import { bucketKeys, buckets, muster, streams } from "@muster/proto";
import { openBucket, makeProtoCodec } from "@muster/store";
import { startTestNats, until } from "@muster/testkit";
import { openAuditLog } from "../src/adapters/audit-log.ts";
import { rolloutCodec, setCodec } from "../src/adapters/messages.ts";
import { makeRecords, openRecords, type FarmRecords } from "../src/adapters/records.ts";
import { openWorld, type World } from "../src/adapters/views.ts";
import { POLICY } from "./a-set.ts";
import { buildPodName, type ReplicaSet } from "../src/domain/replica-set.ts";
import type { Rollout } from "../src/domain/rollout.ts";
import { makeSetOwnership } from "../src/set-passes.ts";
import { runPassOnce, type PassResult } from "./pass-once.ts";
import type { SetOwnership, PassDeps } from "../src/pass-deps.ts";

const wire = muster.watch.v1;

/** The surroundings of a farm's passes without a farm: a NATS server with the test's records, and an API server that only counts. */
export type PassWorld = AsyncDisposable & {
  readonly deps: PassDeps;
  readonly bus: NatsBus;
  readonly connection: NatsBus["connection"];
  readonly world: World;
  readonly sets: FarmRecords<ReplicaSet>;
  readonly rollouts: FarmRecords<Rollout>;
  putNode(name: string, state?: Partial<muster.watch.v1.NodeState>): Promise<void>;
  /** The pod of one of the set's places. */
  putPod(set: ReplicaSet, ordinal: number, state?: Partial<muster.watch.v1.PodState>): Promise<void>;
  /** Marks all nodes as known. */
  complete(): Promise<void>;
  /** One pass by the owner of the set, which remembers the passes before it. */
  pass(name: string): Promise<PassResult>;
  /** All that was ever written, stored or asked for: writes of both buckets, audits, events, pods. */
  writes(): Promise<number>;
  /** All records of sets, as they are stored. */
  listSets(): Promise<unknown>;
  /** Number of lists of all records of sets by other clients. */
  lists(): number;
  /** The same records as another farm sees them that opens now. */
  openAnother(): Promise<World>;
  /** Number of passes that raised an alert of this incident. */
  raised(incidentKey: string): number;
};

const FENCE = 1;

export const NODES_FRESH_MS = 3_600_000;

type Others = Pick<Partial<PassDeps>, "auditLog" | "now" | "unhealthyMs" | "alerts"> & {
  readonly wallNow?: () => number;
};

/** `pods`: the API server's behaviour instead of counting; `wallNow`: the clock that the watcher's marks are compared with. */
export async function openPassWorld(
  pods: Partial<PassDeps["pods"]> = {},
  { wallNow = Date.now, ...others }: Others = {},
): Promise<PassWorld> {
  await using starting = new AsyncDisposableStack();
  const nats = starting.use(await startTestNats());
  const bus = starting.use(await connectNats({ url: nats.url, token: nats.token, name: "passes" }));
  const { connection } = bus;
  await bus.ensureStream(streams.events);
  await bus.ensureStream(streams.audit);
  const stored = await openRecords(connection, buckets.replicaSets, setCodec);
  let lists = 0;
  const setBucket: typeof stored = {
    ...stored,
    list: (filter) => {
      lists += 1;
      return stored.list(filter);
    },
  };
  const rolloutBucket = await openRecords(connection, buckets.rolls, rolloutCodec);
  const nodes = await openBucket(connection, { name: buckets.nodes, codec: makeProtoCodec(wire.NodeState) });
  const marks = await openBucket(connection, { name: buckets.nodes, codec: makeProtoCodec(wire.NodesComplete) });
  const podStates = await openBucket(connection, { name: buckets.pods, codec: makeProtoCodec(wire.PodState) });
  const foreign = { isKnown: () => true, on: () => new Map(), onChange: () => () => undefined, ageMs: () => 0 };
  const records = { sets: setBucket, rollouts: rolloutBucket };
  const options = { connection, ...records, foreign, nodesFreshMs: NODES_FRESH_MS, nodeGraceMs: 0 };
  const open = () => openWorld({ ...options, now: Date.now, wallNow, onProblem: () => undefined });
  const world = starting.use(await open());
  const startMs = Date.now();
  let asked = 0;
  const ask = (): Promise<void> => {
    asked += 1;
    return Promise.resolve();
  };
  const raised: string[] = [];
  const [sets, rollouts] = [makeRecords(setBucket), makeRecords(rolloutBucket)];
  const deps: PassDeps = {
    now: () => startMs,
    newId: () => crypto.randomUUID(),
    sets,
    rollouts,
    world,
    auditLog: openAuditLog(bus),
    pods: {
      create: () => ask().then(() => ({ kind: "refused", message: "nothing is made here" })),
      confirm: ask,
      delete: ask,
      abandon: ask,
      list: () => Promise.resolve([]),
      ...pods,
    },
    scheduler: {
      machinesOf: () => new Map(),
      allocate: ask,
      deallocate: ask,
      ask: () => Promise.resolve(undefined),
      trouble: () => undefined,
    },
    queueOf: () => ({ kind: "none" }),
    templateHash: () => "h1",
    failsafe: () => false,
    policy: POLICY,
    force: { nodeLostMs: 3_600_000 },
    unhealthyMs: 3_600_000,
    alerts: { raise: ({ incidentKey }) => void raised.push(incidentKey), resolve: () => undefined },
    report: { planned: () => undefined, failed: () => void ask() },
    ...others,
  };
  const owned = new Map<string, SetOwnership>();
  const stack = starting.move();
  return {
    deps,
    bus,
    connection,
    listSets: () => stored.list(),
    lists: () => lists,
    openAnother: open,
    world,
    sets,
    rollouts,
    putNode: async (name, state = {}) => {
      await nodes.create(name, new wire.NodeState({ name, uid: name, ready: true, schedulable: true, ...state }));
    },
    putPod: async (set, ordinal, state = {}) => {
      const pod = buildPodName(set.name, ordinal);
      const node = set.placements.find((place) => place.ordinal === ordinal)?.node ?? "";
      const health = muster.health.v1.Health.HEALTH_READY;
      const owner = { kind: "replica-set", id: set.name };
      const podState = { owner, component: set.spec.podId, pod, uid: pod, node, health, ...state };
      await podStates.create(`replica-set.${set.name}.${pod}`, new wire.PodState(podState));
    },
    complete: async () => {
      await marks.create(bucketKeys.nodesComplete, new wire.NodesComplete({ atMs: Date.now() }));
      await until("the nodes are known", () => world.observedNodes() !== undefined);
    },
    pass: (name) => {
      // A farm owns the rolling update of this name from its beginning.
      const owner = owned.get(name) ?? {
        ...makeSetOwnership(deps, { name, fence: FENCE, isHeld: () => true }),
        isRolloutFenced: true,
      };
      owned.set(name, owner);
      return runPassOnce(deps, owner);
    },
    writes: async () => asked + (await storedIn(bus)),
    raised: (incidentKey) => raised.filter((each) => each === incidentKey).length,
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

/** How many messages the streams behind sets, rolling updates, audits and events have ever taken. */
async function storedIn(bus: NatsBus): Promise<number> {
  const names = [`KV_${buckets.replicaSets}`, `KV_${buckets.rolls}`, streams.audit.name, streams.events.name];
  const states = await Promise.all(names.map((name) => bus.streamState(name)));
  return states.reduce((sum, state) => sum + (state?.lastSequence ?? 0), 0);
}
