import { enums, type muster } from "@muster/proto";
import type { NodeVerdict } from "../domain/explain-nodes.ts";
import { explainSet, getSetPhase, type SetSeen } from "../domain/explain-set.ts";
import type { ReplicaSet } from "../domain/replica-set.ts";
import type { Rollout } from "../domain/rollout.ts";

type Explanation = muster.explain.v1.Explanation.$Properties;

/** Records, with their messages in replies. */
export type ExplainedSet = {
  readonly set: ReplicaSet;
  readonly message: muster.farm.v1.ReplicaSet.$Properties;
  readonly rollout: { readonly record: Rollout; readonly message: muster.farm.v1.Roll.$Properties } | undefined;
  readonly nodes: readonly NodeVerdict[] | undefined;
};

/** Why the set is in its phase now. */
export function explainAnswer(shown: ExplainedSet, nowMs: number): Explanation {
  const seen = toSetSeen(shown);
  const { name } = shown.set;
  return { kind: "replica-set", name, ...getSetPhase(seen), reasons: [explainSet(seen, nowMs)] };
}

function toSetSeen({ set, message, rollout, nodes }: ExplainedSet): SetSeen {
  const { farm, replicasDesired, healthy, replicas } = message;
  return {
    set,
    farm: farm ?? "",
    desired: replicasDesired ?? 0,
    healthy: healthy ?? 0,
    replicas: (replicas ?? []).map(({ node, pod, health, reason, message: text, eligible }) => ({
      node: node ?? "",
      pod: pod ?? "",
      health: enums.Health.nameOf(health ?? 0) ?? "UNKNOWN",
      reason: reason ?? "",
      message: text ?? "",
      eligible: eligible ?? false,
    })),
    rollout: rollout && {
      rollout: rollout.record,
      oldHealthy: rollout.message.oldHealthy ?? 0,
      oldCurrent: rollout.message.oldCurrent ?? 0,
      newHealthy: rollout.message.newHealthy ?? 0,
      newCurrent: rollout.message.newCurrent ?? 0,
      waitingBecause: rollout.message.waitingBecause ?? "",
    },
    nodes,
  };
}
