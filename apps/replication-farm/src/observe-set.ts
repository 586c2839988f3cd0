import type { ObservedInput, ReconcileResult } from "@muster/controller";
import type { StoredRecord } from "./adapters/records.ts";
import { countAvailable } from "./domain/count-healthy.ts";
import { nextAvailableAtMs } from "./domain/decide-available.ts";
import type { PassSnapshot, RolloutState } from "./domain/plan-pass.ts";
import type { RolloutSet } from "./domain/plan-rollout.ts";
import type { ReplicaSet } from "./domain/replica-set.ts";
import type { Rollout } from "./domain/rollout.ts";
import type { SetSnapshot } from "./domain/set-snapshot.ts";
import type { SetOwnership, PassDeps } from "./pass-deps.ts";
import { findUnhealthy, nextUnhealthyAtMs } from "./pass-health.ts";
import { observeMachines } from "./pass-machines.ts";
import { forgetGone, forgetRestarts, nextForgetAtMs, findOccupiedNodes, listPodsOfSet } from "./pass-pods.ts";

/** The observed state of a set, with the revisions that writes name. */
export type SeenSet = Omit<PassSnapshot, "rollout"> & {
  readonly owned: SetOwnership;
  readonly stored: StoredRecord<ReplicaSet> | undefined;
  readonly rollout: SeenRollout | undefined;
  /** The time at which the observation changes without an event. */
  readonly atMs: number;
};

export type SeenRollout = StoredRecord<Rollout> &
  Omit<RolloutState, "sets"> & {
    readonly sets: readonly [SeenRolloutSet | undefined, SeenRolloutSet | undefined] | undefined;
  };

type SeenRolloutSet = RolloutSet & { readonly revision: number; readonly nextAtMs: number };

/** Ends the ownership if the set and its rolling update are gone, or have a later owner. An unreadable record stays unchanged. */
export async function observeSet(deps: PassDeps, owned: SetOwnership): Promise<ObservedInput<SeenSet>> {
  if (!owned.isHeld()) return endOwnership(owned, "lost");
  const found = await deps.sets.get(owned.name);
  if (found !== undefined && "unreadable" in found) return {};
  const rollout = await observeRollout(deps, owned);
  if (found === undefined && rollout === undefined) return endOwnership(owned, "gone");
  if (Math.max(found?.record.fence ?? 0, rollout?.record.fence ?? 0) > owned.fence) return endOwnership(owned, "lost");
  const snapshot = found?.record.fence === owned.fence ? await observeRecord(deps, owned, found.record) : undefined;
  if (snapshot !== undefined) forgetRestarts(owned, snapshot);
  const nowMs = snapshot?.nowMs ?? deps.now();
  const rolloutAtMs = rollout?.sets?.map((each) => each?.nextAtMs ?? Infinity) ?? [];
  const seen: SeenSet = {
    owned,
    stored: found,
    nowMs,
    fence: owned.fence,
    rollout,
    record: found?.record,
    snapshot,
    occupied: found === undefined ? new Map() : findOccupiedNodes(deps, owned, found.record),
    restarts: owned.restarts,
    confirmed: owned.confirmed,
    answers: owned.answers,
    inFlight: new Set(owned.steps.keys()),
    machinesNotBeforeMs: owned.refusals.notBeforeMs,
    doneUnder: owned.doneUnder,
    atMs: Math.min(
      nextUnhealthyAtMs(owned, { nowMs, unhealthyMs: deps.unhealthyMs }),
      nextForgetAtMs(owned),
      ...rolloutAtMs,
    ),
  };
  return { seen };
}

/** Ends the ownership: no pass over the set follows. */
export function endOwnership(owned: SetOwnership, end: "gone" | "lost"): ReconcileResult {
  owned.end = end;
  return {};
}

/** Undefined: the rolling update that the record names is missing. */
async function observeRecord(deps: PassDeps, owned: SetOwnership, set: ReplicaSet): Promise<SetSnapshot | undefined> {
  const rollout = set.rollout === undefined ? undefined : await deps.rollouts.get(set.rollout);
  if (set.rollout !== undefined && (rollout === undefined || "unreadable" in rollout)) return undefined;
  const ledger = await observeMachines(deps, owned, set);
  const nodes = deps.world.nodesFor(set);
  await forgetGone(deps, owned, set);
  const pods = listPodsOfSet(deps, owned, set);
  const nowMs = deps.now();
  const { unhealthyMs } = deps;
  return {
    nowMs,
    set,
    rollout: rollout !== undefined && "record" in rollout ? rollout.record : undefined,
    nodes,
    unhealthy: nodes === undefined || set.disabled ? [] : findUnhealthy(owned, set, pods, { nowMs, unhealthyMs }),
    taken: deps.world.takenFrom(set),
    contest: deps.world.contestFor(set),
    ledger,
    pods,
    templateHash: deps.templateHash(set),
    failsafe: deps.failsafe(),
  };
}

/** Returns undefined if no readable rolling update has the set's name. The sets are read after the update. */
async function observeRollout(deps: PassDeps, owned: SetOwnership): Promise<SeenRollout | undefined> {
  if (deps.world.rollout(owned.name) === undefined) return undefined;
  const found = await deps.rollouts.get(owned.name);
  if (found === undefined || "unreadable" in found) return undefined;
  const { oldSet, newSet } = found.record;
  const [old, fresh] = [await observeRolloutSet(deps, oldSet), await observeRolloutSet(deps, newSet)];
  const sets = old === "unreadable" || fresh === "unreadable" ? undefined : ([old, fresh] as const);
  const blind = sets?.some((each) => each !== undefined && deps.world.nodesFor(each.set) === undefined) ?? true;
  return { ...found, sets, blind, isFenced: owned.isRolloutFenced, wait: owned.rolloutWait };
}

async function observeRolloutSet(deps: PassDeps, name: string): Promise<SeenRolloutSet | "unreadable" | undefined> {
  const found = await deps.sets.get(name);
  if (found === undefined) return undefined;
  if ("unreadable" in found) return "unreadable";
  const { record: set, revision } = found;
  const [pods, nowMs] = [deps.world.podsOf(name), deps.now()];
  const healthy = countAvailable(set, pods, { templateHash: deps.templateHash(set), nowMs });
  return { set, revision, healthy, nextAtMs: nextAvailableAtMs(pods, set.spec, nowMs) };
}
