/** The reason for a state: a stable word, one sentence, and the remedy. */
export type StateReason = {
  /** A word of the owner kind, or the ledger's word for the wait. */
  readonly code: string;
  readonly message: string;
  /** Empty if waiting is the only advice. */
  readonly next: string;
};

/** The parts of a reservation and of its wait that reasons depend on. */
export type SeenMachines = {
  /** The ledger's word for the wait; empty if the reservation does not wait. */
  readonly code: string;
  readonly message: string;
  readonly components: readonly string[];
  readonly pools: readonly SeenPool[];
};

type SeenPool = {
  readonly pool: string;
  readonly unusable: number;
  /** The unusable nodes that the ledger names, with the reason of each; absent: it names none. */
  readonly unusableNodes?: readonly { readonly reason: string }[];
  /** The maximum size to which the node scaler may scale the pool; 0: the pool is not scaled. */
  readonly elasticMax: number;
  /** `KIND/ID` of the owners that hold machines of the pool. */
  readonly holders: readonly string[];
};

/** A pod that outlived its work and keeps a machine: `owner` is `KIND/ID` of the ledger, `pod` is `NAMESPACE/NAME`, `node` is empty before scheduling. */
export type LeftoverPod = {
  readonly owner: string;
  readonly name: string;
  readonly pod: string;
  readonly node: string;
};

/** A reason without advice. */
export function buildReason(code: string, message: string): StateReason {
  return { code, message, next: "" };
}

/** The ledger's reason; undefined if no reservation exists, or it does not wait. */
export function buildWaitReason(machines: SeenMachines | undefined): StateReason | undefined {
  if (machines === undefined || machines.code === "") return undefined;
  return { code: machines.code, message: machines.message, next: adviseWait(machines) };
}

/** Advice if no node needs a repair. */
const ADVICE: Readonly<Record<string, string>> = {
  POOL_AVAILABILITY: "wait for the holders, end one of them, or enlarge the pool",
  WAITING_FOR_TOPOLOGY: "wait, or label or add nodes",
};

/** Advises on a reservation that waits. */
export function adviseWait({
  code,
  pools,
}: {
  readonly code: string;
  readonly pools: readonly Pick<SeenPool, "pool" | "unusable" | "unusableNodes">[];
}): string {
  if (code === "POOLS_NOT_KNOWN_YET") return "wait until the watcher has listed the nodes; `muster doctor` checks it";
  if (code === "CONCURRENCY_LIMIT")
    return "wait, or let more sessions hold machines concurrently: SESSION_EXECUTORS of the session controller";
  if (code === "POOL_UNKNOWN") return "name a pool that exists: `muster pools` lists them";
  if (code === "POOL_CAPACITY") return "request fewer machines, or enlarge the pool: `muster pools` shows its capacity";
  if (code === "LIMIT_EXCEEDED") return "request less of what the message names, or split the work";
  const advice = adviseOnQueue(code);
  if (advice !== undefined) return advice;
  if (code === "FRAGMENTED")
    return "wait until more becomes free on one machine, request smaller parts, or add a machine";
  if (code === "POOL_TOO_SMALL") return "repair or add nodes of the pool, or cancel it and request less";
  if (code === "HELD_FOR_OLDER") return "wait, or raise `priority` to overtake the older request";
  const broken = pools.map((each) => ({ pool: each.pool, nodes: countBroken(each) })).find(({ nodes }) => nodes > 0);
  if (broken !== undefined)
    return `repair the ${broken.nodes} unusable node${broken.nodes === 1 ? "" : "s"} of pool ${broken.pool}`;
  return ADVICE[code] ?? "";
}

/** Advises on a code of the reservation's queue, for which further nodes do not help; undefined for other codes. */
function adviseOnQueue(code: string): string | undefined {
  if (code === "WAITING_FOR_QUOTA")
    return "wait until work of its tree ends, or raise a quota: `muster queues` shows what is used";
  if (code === "KEPT_FOR_OWNER") return "wait: the queue that owns the quota has work that waits for it";
  if (code === "WAITING_FOR_PREEMPTED")
    return "wait: that work ends by its deadline, which `muster get reservations` shows";
  if (code === "BEHIND_STRICT_HEAD")
    return "wait for the first one, or set spec.strategy of the queue to BestEffortFIFO";
  if (code === "BEHIND_HIGHER_PRIORITY") return "wait for the request that goes first, or raise `priority`";
  if (code === "BEHIND_FAIR_SHARE")
    return "wait for the request that goes first, or raise nominal or weight of the queue: `muster queues` shows the shares";
  if (code === "QUEUE_UNKNOWN")
    return "name a queue in the label muster.dev/queue of the job, or in spec.queue of the session: `muster queues` lists them";
  if (code === "QUEUE_HELD") return "set spec.stopPolicy of the queue to None, or correct what `muster queues` names";
  if (code === "READY_TIMEOUT")
    return "correct what keeps its pods from being ready, or raise spec.readyTimeout of the queue";
  if (code === "QUOTA_EXCEEDED") return "request less, or raise the quota or the borrowingLimit of the queue";
  return undefined;
}

/** Nodes that need a repair. A node with foreign use needs none: it can be granted in parts. */
function countBroken({ unusable, unusableNodes = [] }: Pick<SeenPool, "unusable" | "unusableNodes">): number {
  return Math.max(0, unusable - unusableNodes.filter(({ reason }) => reason === "FOREIGN_USE").length);
}

/** Whether more nodes would help, and the node scaler creates them on demand. */
export function isWaitingForNodes({
  code,
  pools,
}: {
  readonly code: string;
  readonly pools: readonly Pick<SeenPool, "elasticMax">[];
}): boolean {
  return (
    code !== "" &&
    code !== "CONCURRENCY_LIMIT" &&
    adviseOnQueue(code) === undefined &&
    pools.some(({ elasticMax }) => elasticMax > 0)
  );
}

/** Explains why machines are held for deleted work; undefined: none of its pods is left. */
export function explainLeftoverPods(left: readonly LeftoverPod[]): StateReason | undefined {
  if (left.length === 0) return undefined;
  const places = left.map(({ pod, node }) => `pod ${pod} is still on ${node === "" ? "its way to a machine" : node}`);
  return {
    code: "JOB_GONE",
    message: `its job is gone; ${places.join(", ")}: delete it`,
    next: describeDeletion(left),
  };
}

/** Adds holders that are gone to the reason of a wait: a user has to delete their pods. */
export function withGoneHolders(
  reason: StateReason,
  machines: SeenMachines | undefined,
  left: readonly LeftoverPod[],
): StateReason {
  if (machines === undefined || machines.code === "") return reason;
  const holders = machines.pools.flatMap((pool) => pool.holders);
  // A part of an owner has a separate id.
  const blocking = left.filter(({ owner }) => holders.some((each) => each === owner || each.startsWith(`${owner}--`)));
  if (blocking.length === 0) return reason;
  const gone = blocking.map(({ owner, pod }) => `${owner} is gone, and its pod ${pod} still keeps a machine`);
  const next = [describeDeletion(blocking), reason.next].filter((part) => part !== "").join("; ");
  return { ...reason, message: `${reason.message}; ${gone.join(", ")}`, next };
}

function describeDeletion(left: readonly LeftoverPod[]): string {
  return left.map(({ pod }) => `kubectl delete pod -n ${pod.replace("/", " ")}`).join("; ");
}
