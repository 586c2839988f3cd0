import { muster } from "@muster/proto";
import { pick, unlessDefault } from "./message-fields.ts";

export type Queue = ReturnType<typeof queueFromMessage>;
export type QueueAmount = ReturnType<typeof amountsFrom>[number];

/** A queue and what the ledger knows of it. Amounts are millicores of cpu, otherwise bytes or pieces. */
export function queueFromMessage(message: muster.reservation.v1.QueueState) {
  const { queue = muster.reservation.v1.Queue.create() } = message;
  return {
    name: queue.name,
    parent: unlessDefault(queue.parent),
    /** Why it admits nothing; empty: it admits work. */
    problem: message.problem,
    /** The error in the queue's specification; empty: it has none. */
    specProblem: queue.problem,
    ...pick(queue, "strategy", "stopPolicy", "weightMilli", "maxPriority", "pastUseHalfLifeMs"),
    ...pick(queue, "minRunTimeMs", "readyTimeoutMs", "permitsNonPreemptible"),
    /** Which work its requests may preempt; undefined: none. */
    preemption: queue.preemption && preemptionFrom(queue.preemption),
    ...pick(message, "pending", "admitted", "shareMillionths", "pastShareMillionths"),
    /** The labels of the namespaces that it serves; empty: all, undefined: none. */
    namespaces: queue.namespaces ? selectorText(queue.namespaces) : undefined,
    hasQuotas: queue.quotas.some(({ resources }) => resources.length > 0),
    amounts: amountsFrom(message, queue),
  };
}

function preemptionFrom(policy: muster.reservation.v1.PreemptionPolicy) {
  const { reclaim, fairSharing, withinQueue, whileBorrowing } = policy;
  return {
    ...{ reclaim: reclaim || "Never", fairSharing: fairSharing || "Never", withinQueue: withinQueue || "Never" },
    ...(whileBorrowing && { whileBorrowing: pick(whileBorrowing, "maxPriority") }),
  };
}

/** As kubectl writes a selector: `team=a,tier in (x,y)`. */
function selectorText({ matchLabels, matchExpressions }: muster.reservation.v1.LabelSelector): string {
  const expressions = matchExpressions.map(({ key, operator, values }) => {
    if (operator === "Exists") return key;
    if (operator === "DoesNotExist") return `!${key}`;
    return `${key} ${operator === "NotIn" ? "notin" : "in"} (${values.join(",")})`;
  });
  return [...Object.entries(matchLabels).map(([key, value]) => `${key}=${value}`), ...expressions].join(",");
}

/** One for each pool and resource that the queue or its work names, in the order of their names. */
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
        stated: row && pick(row, "nominal", "borrowingLimit", "lendingLimit"),
        /** With the queues below it; undefined: no quota limits the resource. */
        quota: ofQuota.get(pool)?.[resource],
        used: ofUsed.get(pool)?.[resource] ?? 0,
        borrowed: ofBorrowed.get(pool)?.[resource] ?? 0,
      };
    });
  });
}
