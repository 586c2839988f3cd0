import { countHealthy } from "./count-healthy.ts";
import { decideStuck, type RolloutWait } from "./decide-stuck.ts";
import { nextAvailableAtMs } from "./decide-available.ts";
import { planAnswers, type PodAnswer } from "./plan-answers.ts";
import { planAllocation, type AllocationStep } from "./plan-allocation.ts";
import { computeLossEndMs } from "./plan-set-machines.ts";
import { planPods, type PodAction, type PlacementRestarts } from "./plan-pods.ts";
import { planRollout, type RolloutSet, type RolloutStep } from "./plan-rollout.ts";
import { planSet } from "./plan-set.ts";
import type { ReplicaSet, SetTrouble } from "./replica-set.ts";
import type { Rollout } from "./rollout.ts";
import type { SetChange, SetChangeReason, SetWait } from "./set-plan.ts";
import type { SetPolicy, SetSnapshot } from "./set-snapshot.ts";

/** The state that one round of a pass plans from, with the farm's memory of the set. */
export type PassSnapshot = {
  readonly nowMs: number;
  /** The token of the farm's lock. */
  readonly fence: number;
  /** The rolling update of the set's name, which the owner of the set runs. */
  readonly rollout: RolloutState | undefined;
  /** Undefined: only the rolling update of this name exists. */
  readonly record: ReplicaSet | undefined;
  /** Undefined: the farm has not taken the record over yet, or the rolling update that it names is missing. */
  readonly snapshot: SetSnapshot | undefined;
  /** Nodes with a live pod of the set's pod id, by the pod's name. */
  readonly occupied: ReadonlyMap<string, string>;
  readonly restarts: ReadonlyMap<number, PlacementRestarts>;
  /** Uids of pods that this farm has confirmed. */
  readonly confirmed: ReadonlySet<string>;
  /** Pods whose steps of earlier rounds have not been evaluated. */
  readonly inFlight: ReadonlySet<string>;
  /** The results of the previous round's steps. */
  readonly answers: readonly PodAnswer[];
  /** Earliest time of the next request for machines after a refusal. */
  readonly machinesNotBeforeMs: number;
  /** The traceparent of the last request, once all of its effects are complete. */
  readonly doneUnder: string | undefined;
};

export type RolloutState = {
  readonly record: Rollout;
  /** Undefined: one of its sets cannot be read. */
  readonly sets: readonly [old: RolloutSet | undefined, fresh: RolloutSet | undefined] | undefined;
  /** True if no former owner of the update can still write its sets. */
  readonly isFenced: boolean;
  /** The nodes of a set are unknown. */
  readonly blind: boolean;
  readonly wait: RolloutWait | undefined;
};

type PassPolicy = SetPolicy & {
  /** Pods and rolling updates raise an alert after being unhealthy or stuck for this long. */
  readonly unhealthyMs: number;
};

/** `step`: its trouble is written while it waits, unless `isNews` is false. `wait`: one of its sets cannot be read. */
export type RolloutPlan =
  | { readonly kind: "take" | "fence" | "wait" }
  | {
      readonly kind: "step";
      readonly step: RolloutStep;
      readonly trouble: SetTrouble | undefined;
      readonly wait: RolloutWait | undefined;
      readonly isNews: boolean;
    };

/** `take`: this farm's fence is written. `hold`: no other step happens while the rolling update of the set is missing. */
export type SetPassPlan =
  | { readonly kind: "take" }
  | { readonly kind: "hold"; readonly change: SetChange | undefined }
  | {
      readonly kind: "work";
      readonly change: SetChange | undefined;
      readonly waits: readonly SetWait[];
      readonly pods: readonly PodAction[];
      readonly machines: readonly AllocationStep[];
      /** The record, pods and machines of a deleted set are gone, as far as this farm has observed. */
      readonly isOver: boolean;
      /** All requested pods and machines exist. */
      readonly isDone: boolean;
      /** The time at which the plan changes without an event. */
      readonly atMs: number;
    };

type PassStep = { readonly kind: string; readonly because: string };

export type PassPlan = {
  /** The changes of the round; an idle round has none. */
  readonly steps: readonly PassStep[];
  /** The traceparent of the request that the changes follow from; empty: none. */
  readonly under: string;
  readonly rollout: RolloutPlan | undefined;
  /** Carried out unless the rolling update changed. */
  readonly set: SetPassPlan | undefined;
};

/**
 * Plans one round over a set: at most one change of its rolling update or its record, and the steps that make pods and machines match the record. Pods follow a
 * change immediately. Machines are requested and released once no change and no pod is due.
 */
export function planPass(seen: PassSnapshot, policy: PassPolicy): PassPlan {
  const rollout = seen.rollout && planOwnRollout(seen.rollout, seen, policy);
  const ofRollout = seen.rollout && rollout ? rolloutSteps(seen.rollout, rollout) : [];
  const set = seen.record && planRecord(seen.record, seen, policy);
  const isRolloutChanged = ofRollout.some(({ kind }) => kind !== PUBLISH.kind);
  const ofSet = seen.record && set && !isRolloutChanged ? setSteps(seen.record, set, seen) : [];
  const change = set === undefined || set.kind === "take" ? undefined : set.change;
  const ofChange = change === undefined ? seen.record?.traceparent : buildRequest(seen, change.because);
  const under = (ofRollout.length > 0 ? seen.rollout?.record.traceparent : ofChange) ?? "";
  return { steps: [...ofRollout, ...ofSet], under, rollout, set };
}

const PUBLISH = { kind: "publish-audits", because: "not-published" };
const TAKE = { kind: "take", because: "new-owner" };

function planOwnRollout(state: RolloutState, { fence, nowMs }: PassSnapshot, { unhealthyMs }: PassPolicy): RolloutPlan {
  const { record: rollout, sets, isFenced, blind } = state;
  if (rollout.fence < fence) return { kind: "take" };
  if (sets === undefined) return { kind: "wait" };
  const [old, fresh] = sets;
  const existing = sets.flatMap((each) => each?.set ?? []);
  if (!isFenced && existing.length > 0) return { kind: "fence" };
  const step = planRollout({ nowMs, rollout, old, fresh, blind });
  const { trouble, wait } = decideStuck(state.wait, rollout, step, { nowMs, unhealthyMs, sets: existing });
  const isNews = trouble !== undefined && trouble.message !== rollout.trouble?.message;
  return { kind: "step", step, trouble, wait, isNews };
}

function rolloutSteps({ record: { outbox } }: RolloutState, plan: RolloutPlan): PassStep[] {
  if (plan.kind === "take") return [{ ...TAKE, kind: "take-roll" }];
  const published = outbox.length === 0 ? [] : [PUBLISH];
  if (plan.kind === "fence") return [...published, { ...TAKE, kind: "fence-sets" }];
  return isRolloutWritten(outbox, plan)
    ? [...published, { kind: `roll-${plan.step.kind}`, because: plan.step.because }]
    : published;
}

/** Only the record of an update contains its audits, so it is kept until they are published. */
export function isRolloutWritten(
  outbox: readonly unknown[],
  plan: RolloutPlan,
): plan is Extract<RolloutPlan, { kind: "step" }> {
  if (plan.kind !== "step") return false;
  return plan.step.kind === "wait" ? plan.isNews : plan.step.kind !== "end" || outbox.length === 0;
}

function planRecord(record: ReplicaSet, seen: PassSnapshot, policy: PassPolicy): SetPassPlan {
  if (record.fence < seen.fence) return { kind: "take" };
  const { snapshot } = seen;
  if (snapshot === undefined) return { kind: "hold", change: noteMissingRollout(record, seen.nowMs) };
  const answered = planAnswers(record, seen.answers, seen.nowMs);
  const { change, waits } = answered === undefined ? planSet(snapshot, policy) : { change: answered, waits: [] };
  const pods = planPods({ ...snapshot, set: change?.next ?? record }, seen.occupied, seen.restarts);
  const isSettled = change === undefined && seen.inFlight.size === 0;
  const machines = isSettled
    ? planAllocation(record, snapshot.ledger, { pods: snapshot.pods.values(), failsafe: snapshot.failsafe })
    : [];
  return {
    kind: "work",
    change,
    waits,
    pods: pods.filter((step) => step.kind !== "wait").filter((step) => isDue(step, seen, snapshot)),
    machines,
    isOver: isSettled && isOver(record, snapshot),
    isDone: waits.length === 0 && isSteady(snapshot),
    atMs: nextAtMs(record, snapshot, policy),
  };
}

function isDue(step: PodAction, { inFlight, confirmed }: PassSnapshot, { set, pods, failsafe }: SetSnapshot): boolean {
  if (inFlight.has(step.pod)) return false;
  if (step.kind === "delete" && failsafe && set.deletion === undefined) return false;
  return step.kind !== "confirm" || !confirmed.has(pods.get(step.pod)?.uid ?? "");
}

function setSteps({ outbox }: ReplicaSet, plan: SetPassPlan, { nowMs, machinesNotBeforeMs }: PassSnapshot): PassStep[] {
  if (plan.kind === "take") return [TAKE];
  const published = outbox.length === 0 ? [] : [PUBLISH];
  const changed = plan.change === undefined ? [] : [{ kind: "change", because: plan.change.because }];
  if (plan.kind === "hold") return [...published, ...changed];
  const machines = plan.machines.filter(
    ({ kind }) => kind === "deallocate" || (kind === "allocate" && nowMs >= machinesNotBeforeMs),
  );
  const removed = plan.isOver ? [{ kind: "remove-record", because: "deleted" }] : [];
  return [...published, ...changed, ...plan.pods, ...machines, ...removed].map(({ kind, because }) => ({
    kind,
    because,
  }));
}

/**
 * Returns the traceparent of the request that caused a change of the record. A change without a request, such as after a lost node, starts a new trace for all
 * of its effects.
 */
export function buildRequest({ record, snapshot, doneUnder }: PassSnapshot, because: SetChangeReason): string {
  const asked = snapshot?.rollout?.traceparent ?? record?.traceparent ?? "";
  return because === "node-ineligible" || asked === doneUnder ? "" : asked;
}

/**
 * Records on the set that its rolling update is missing. The pass takes no other step until the update exists, because only the update states how many replicas
 * the set should have.
 */
function noteMissingRollout(set: ReplicaSet, nowMs: number): SetChange | undefined {
  const message = `rolling update ${set.rollout ?? ""}, in which it is, does not exist or cannot be read`;
  if (set.trouble?.code === "ROLL_SET_MISSING" && set.trouble.message === message) return undefined;
  const next = { ...set, trouble: { code: "ROLL_SET_MISSING", message, sinceMs: nowMs } as const };
  return { next, because: "trouble-changed", audits: [] };
}

function isOver(set: ReplicaSet, { pods, ledger }: SetSnapshot): boolean {
  const { deletion, placements, transfer, machines, nextMachine, rollout, outbox } = set;
  if (deletion === undefined || placements.length > 0 || transfer !== undefined || rollout !== undefined) return false;
  const isReleased = machines.length === 0 && (nextMachine === 1 || (ledger.known && ledger.byNumber.size === 0));
  return pods.size === 0 && outbox.length === 0 && isReleased;
}

function isSteady({ set, rollout, pods, templateHash }: SetSnapshot): boolean {
  const isWhole = countHealthy(set, pods, templateHash) === set.placements.length;
  return rollout === undefined && set.transfer === undefined && isWhole;
}

function nextAtMs(set: ReplicaSet, { rollout, pods, nowMs }: SetSnapshot, policy: SetPolicy): number {
  const { transfer, transferNotBeforeMs, spec } = set;
  const never = Number.POSITIVE_INFINITY;
  const lossEndsAtMs = computeLossEndMs(set, policy);
  return Math.min(
    lossEndsAtMs > nowMs ? lossEndsAtMs : never,
    transfer === undefined || transfer.deadlineMs <= nowMs ? never : transfer.deadlineMs,
    transfer === undefined ? never : nextAvailableAtMs(pods, spec, nowMs),
    transferNotBeforeMs === 0 ? never : transferNotBeforeMs,
    rollout === undefined || rollout.delayMs === 0 ? never : rollout.lastStepAtMs + rollout.delayMs,
  );
}
