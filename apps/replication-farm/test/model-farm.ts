import { findFault } from "@muster/faults";
import { readLabelSelector } from "@muster/names";
import { makeRecords } from "../src/adapters/records.ts";
import { makeSetOwnership } from "../src/set-passes.ts";
import { findNodes } from "../src/domain/eligible-nodes.ts";
import { buildMachineOwner } from "../src/domain/plan-set-machines.ts";
import type { OwnedPod } from "../src/domain/plan-sweep.ts";
import type { MachineState, SetPolicy } from "../src/domain/set-snapshot.ts";
import { runPassOnce } from "./pass-once.ts";
import type { PassDeps } from "../src/pass-deps.ts";
import { SET, type MachinesModel } from "./machines-model.ts";

export const POLICY: SetPolicy = {
  nodeGraceMs: 10_000,
  machinesGoneMs: 10_000,
  transferMs: 30_000,
  transferRetry: { firstMs: 1000, maxMs: 8000 },
};
export const NODE_LOST_MS = 20_000;

/** The failure of a farm at one of its calls: it dies before or after the effect of the call, or another farm takes its set meanwhile. */
export type Fate = { readonly atCall: number; readonly then: "dies-before" | "dies-after" | "sleeps" };

export type ModelFarm = {
  readonly fence: number;
  /** One pass, which may meet its fate; true: something was written, and the next pass decides on it. */
  pass(fate?: Fate): Promise<boolean>;
  /** The model reads the state of the ledger. */
  hear(): void;
};

class Death extends Error {}

/** The owner of the set, as of the lock with this token. `sleeps`: the events of others that it does not notice. */
export function makeModelFarm(model: MachinesModel, fence: number, sleeps: () => Promise<void>): ModelFarm {
  const life = { dead: false, calls: 0, fate: undefined as Fate | undefined };
  const call = async <Value>(effect: () => Value | Promise<Value>): Promise<Value> => {
    if (life.dead) throw new Death();
    const { fate } = life;
    const index = life.calls;
    life.calls += 1;
    if (fate?.atCall !== index) return effect();
    if (fate.then === "sleeps") {
      await sleeps();
      return effect();
    }
    life.dead = true;
    if (fate.then === "dies-after") await effect();
    throw new Death();
  };
  const known: { machines: Map<number, MachineState> | undefined } = { machines: undefined };
  const deps = depsOf(model, call, known);
  const owned = makeSetOwnership(deps, { name: SET, fence, isHeld: () => !life.dead });
  return {
    fence,
    hear: () => {
      if (!model.ledgerAway) known.machines = model.ownReservations();
    },
    pass: async (fate) => {
      Object.assign(life, { calls: 0, fate });
      try {
        return (await runPassOnce(deps, owned)).kind === "again";
      } catch (error) {
        if (!(error instanceof Death) && findFault(error) === undefined) throw error;
        return false;
      } finally {
        await Promise.all(owned.steps.values());
      }
    },
  };
}

type Call = <Value>(effect: () => Value | Promise<Value>) => Promise<Value>;

function depsOf(
  model: MachinesModel,
  call: Call,
  known: { machines: Map<number, MachineState> | undefined },
): PassDeps {
  const bucket = model.bucket();
  const sets = makeRecords({
    ...bucket,
    get: (key) => call(() => bucket.get(key)),
    update: (key, record, revision) => call(() => bucket.update(key, record, revision)),
    delete: (key, revision) => call(() => bucket.delete(key, revision)),
  });
  const noRolls = (): never => {
    throw new Error("there are no rolling updates");
  };
  const rolls = { get: noRolls, list: noRolls, create: noRolls, change: noRolls, own: noRolls, remove: noRolls };
  return {
    now: () => model.nowMs,
    newId: () => model.newId(),
    sets,
    rollouts: rolls,
    world: worldOf(model),
    auditLog: { publish: () => call(() => undefined) },
    pods: podsOf(model, call),
    scheduler: schedulerOf(model, call, known),
    queueOf: () => ({ kind: "none" }),
    templateHash: () => "h1",
    failsafe: () => false,
    policy: POLICY,
    force: { nodeLostMs: NODE_LOST_MS },
    unhealthyMs: 3_600_000,
    alerts: { raise: () => undefined, resolve: () => undefined },
    report: { planned: () => undefined, failed: () => undefined },
  };
}

function worldOf(model: MachinesModel): PassDeps["world"] {
  const everything = readLabelSelector("", "");
  return {
    nodesFor: ({ machines }) => {
      const sights = [...model.nodes].map(([name, node]) => ({ name, labels: {}, ...node }));
      const among = new Set(machines.flatMap(({ grant }) => grant?.node ?? []));
      return findNodes(everything, sights, { nowMs: model.nowMs, graceMs: POLICY.nodeGraceMs, among });
    },
    podsOf: () => model.seenPods,
    occupied: () => new Map([...model.seenPods.values()].map(({ node, name }) => [node, name])),
    takenFrom: () => new Set(),
    contestFor: () => ({ nodes: new Map(), yields: new Set() }),
    rollout: () => undefined,
  };
}

function podsOf(model: MachinesModel, call: Call): PassDeps["pods"] {
  return {
    create: ({ name, uid }, { node, ordinal }) =>
      call(() => {
        const pod = model.makePod(`${name}-${ordinal}`, node, uid);
        return pod.setUid === uid ? { kind: "made", uid: pod.uid, confirmed: pod.placed } : { kind: "name-taken" };
      }),
    confirm: (pod, uid) => call(() => model.confirmPod(pod, uid)),
    delete: (pod, uid, force) => call(() => model.deletePod(pod, uid, force)),
    abandon: () => call(() => undefined),
    list: ({ uid }) => call(() => listLivePods(model).filter(({ setUid }) => setUid === uid)),
  };
}

/** The pods in the API server. */
export function listLivePods(model: MachinesModel): OwnedPod[] {
  return [...model.pods.values()].map(({ name, uid, setUid, node, placed, deleting }) => {
    const { ready = false, unreadySinceMs } = model.nodes.get(node) ?? {};
    const seen = ready
      ? ({ state: "ready" } as const)
      : ({ state: "not-ready", sinceMs: unreadySinceMs ?? 0 } as const);
    const overdueOn = deleting && placed ? seen : undefined;
    const own = { otherInstallation: undefined, kept: false };
    return { pod: name, uid, set: SET, setUid, node: placed ? node : "", deleting, overdueOn, ...own };
  });
}

function schedulerOf(
  model: MachinesModel,
  call: Call,
  known: { machines: Map<number, MachineState> | undefined },
): PassDeps["scheduler"] {
  const learn = (number: number): MachineState | undefined => {
    const sight = model.ownReservations().get(number);
    if (sight !== undefined) known.machines?.set(number, sight);
    return sight;
  };
  return {
    machinesOf: () => known.machines,
    allocate: (set, number) =>
      call(() => {
        model.reserve(buildMachineOwner(set, number));
        learn(number);
      }),
    deallocate: ({ number, reservation }) =>
      call(() => {
        model.unreserve(reservation);
        known.machines?.delete(number);
      }),
    ask: (_set, number) => call(() => learn(number)),
    trouble: () => undefined,
  };
}
