import { renumberReplica } from "./places.ts";
import type { ReplicaSet } from "./replica-set.ts";
import type { SetChange } from "./set-plan.ts";
import { isTroubleWorse } from "./troubles.ts";

/** Why a pod could not be created: its name belongs to another owner, or the API server rejects it. */
export type PodAnswer =
  | { readonly kind: "name-taken"; readonly ordinal: number }
  | { readonly kind: "refused"; readonly ordinal: number; readonly message: string };

/** Gives placements with taken names other ordinals, and records the trouble of a rejected pod. */
export function planAnswers(set: ReplicaSet, answers: readonly PodAnswer[], nowMs: number): SetChange | undefined {
  const taken = answers.filter(({ kind }) => kind === "name-taken").map(({ ordinal }) => ordinal);
  const placed = new Set(set.placements.map(({ ordinal }) => ordinal));
  const renumbered = taken.filter((ordinal) => placed.has(ordinal)).reduce(renumberReplica, set);
  const refusals = answers.filter((answer) => answer.kind === "refused").map(({ message }) => message);
  const [message] = refusals;
  const { trouble } = set;
  const isKnown = trouble?.code === "POD_REFUSED" && refusals.includes(trouble.message);
  const isHidden = trouble !== undefined && isTroubleWorse(trouble.code, "POD_REFUSED");
  const next =
    message === undefined || isKnown || isHidden
      ? renumbered
      : { ...renumbered, trouble: { code: "POD_REFUSED", message, sinceMs: nowMs } as const };
  if (next === set) return undefined;
  return { next, because: renumbered === set ? "trouble-changed" : "pod-name-taken", audits: [] };
}
