import { muster } from "@muster/proto";
import { getQueueReason } from "../domain/queue-reason.ts";
import { pickFields, unlessDefault } from "./message-fields.ts";

export type Queue = ReturnType<typeof toQueue>;
export type QueueAmount = ReturnType<typeof amountsFrom>[number];

/** A queue as the ledger reports it. Amounts are millicores of cpu, and otherwise bytes or pieces. */
export function toQueue(message: muster.reservation.v1.QueueState) {
  const { queue = muster.reservation.v1.Queue.create() } = message;
  return {
    name: queue.name,
    parent: unlessDefault(queue.parent),
    /** Why the queue admits nothing; empty if it admits work. */
    problem: getQueueReason(message.problem, queue.problem),
    /** The error in the queue's specification; empty: it has none. */
    specProblem: queue.problem,
    ...pickFields(queue, "strategy", "stopPolicy", "weightMilli", "maxPriority", "pastUseHalfLifeMs"),
    ...pickFields(queue, "minRunTimeMs", "readyTimeoutMs", "permitsNonPreemptible"),
    /** The work that requests of the queue may preempt; undefined for none. */
    preemption: queue.preemption && preemptionFrom(queue.preemption),
    ...pickFields(message, "pending", "admitted", "shareMillionths", "pastShareMillionths"),
    /** The labels of the namespaces that the queue serves; empty for all, undefined for none. */
    namespaces: queue.namespaces ? selectorText(queue.namespaces) : undefined,
    hasQuotas: queue.quotas.some(({ resources }) => resources.length > 0),
    amounts: amountsFrom(message, queue),
  };
}

function preemptionFrom(policy: muster.reservation.v1.PreemptionPolicy) {
  const { reclaim, fairSharing, withinQueue, whileBorrowing } = policy;
  return {
    ...{ reclaim: reclaim || "Never", fairSharing: fairSharing || "Never", withinQueue: withinQueue || "Never" },
    ...(whileBorrowing && { whileBorrowing: pickFields(whileBorrowing, "maxPriority") }),
  };
}

/** Formats a selector as kubectl does: `team=a,tier in (x,y)`. */
function selectorText({ matchLabels, matchExpressions }: muster.reservation.v1.LabelSelector): string {
  const expressions = matchExpressions.map(({ key, operator, values }) => {
    if (operator === "Exists") return key;
    if (operator === "DoesNotExist") return `!${key}`;
    return `${key} ${operator === "NotIn" ? "notin" : "in"} (${values.join(",")})`;
  });
  return [...Object.entries(matchLabels).map(([key, value]) => `${key}=${value}`), ...expressions].join(",");
}

/** Returns one amount for each pool and resource that the queue or its work names, sorted by name. */
function amountsFrom(
  { used, borrowed, quota }: muster.reservation.v1.QueueState,
  { quotas }: muster.reservation.v1.Queue,
) {
  const stated = new Map(quotas.map(({ pool, resources }) => [pool, new Map(resources.map((r) => [r.resource, r]))]));
  const amountsOf = (uses: readonly muster.reservation.v1.PoolUse[]) =>
    new Map(uses.map(({ pool, amounts }) => [pool, amounts]));
  const [ofUsed, ofBorrowed, ofQuota] = [amountsOf(used), amountsOf(borrowed), amountsOf(quota)];
  const pools = new Set([...stated.keys(), ...ofQuota.keys(), ...ofUsed.keys()]);
  return [...pools].sort().flatMap((pool) => {
    const own = stated.get(pool);
    const named = [
      ...(own?.keys() ?? []),
      ...Object.keys(ofQuota.get(pool) ?? {}),
      ...Object.keys(ofUsed.get(pool) ?? {}),
    ];
    return [...new Set(named)].sort().map((resource) => {
      const row = own?.get(resource);
      return {
        ...{ pool, resource },
        /** The quota that the specification states; undefined: it does not name the resource. */
        stated: row && pickFields(row, "nominal", "borrowingLimit", "lendingLimit"),
        /** The quota including the queues below; undefined if no quota limits the resource. */
        quota: ofQuota.get(pool)?.[resource],
        used: ofUsed.get(pool)?.[resource] ?? 0,
        borrowed: ofBorrowed.get(pool)?.[resource] ?? 0,
      };
    });
  });
}
