import { printAmount } from "@muster/resources";
import { DELETING } from "@muster/ledger-client/choose-queue";
import { type QueueRow } from "./queue-row.ts";

/** A queue as the ledger reports it, with the fields of its message. */
export type LedgerQueue = {
  /** The queue as the ledger follows it now. */
  readonly queue: { readonly problem: string } | undefined;
  readonly used: readonly PoolAmounts[];
  readonly borrowed: readonly PoolAmounts[];
  readonly quota: readonly PoolAmounts[];
  readonly pending: number;
  readonly admitted: number;
  readonly shareMillionths: number;
  readonly problem: string;
};

type PoolAmounts = { readonly pool: string; readonly amounts: Readonly<Record<string, number>> };

/** `status` of a Queue, in the form of its definition. */
export type QueueStatus = {
  readonly observedGeneration: number;
  readonly reason: string;
  readonly message: string;
  readonly pending: number;
  readonly admitted: number;
  readonly share: string;
  readonly pools: readonly PoolStatus[];
  readonly conditions: readonly QueueCondition[];
};

type PoolStatus = { readonly pool: string; readonly resources: readonly ResourceStatus[] };
type ResourceStatus = {
  readonly name: string;
  readonly quota?: string;
  readonly used: string;
  readonly borrowed: string;
};

type QueueCondition = {
  readonly type: "Admitting" | "DeletionBlocked";
  readonly status: "True" | "False" | "Unknown";
  readonly reason: string;
  readonly message: string;
  readonly observedGeneration: number;
  readonly lastTransitionTime: string;
};

/** The known facts about a queue in addition to its Queue object. */
export type QueueFacts = {
  /** The answer of the ledger about the queue; undefined without an answer. */
  readonly state: LedgerQueue | undefined;
  /** True if the ledger does not answer. */
  readonly isSilent: boolean;
  /** Names of the queues below this one. */
  readonly children: readonly string[];
  readonly nowMs: number;
};

type Finding = Pick<QueueCondition, "status" | "reason" | "message">;

const NAMES_SHOWN = 5;

/** Describes the status of a queue. While the ledger is silent, the numbers of its last answer stay. */
export function describeQueue(row: QueueRow, facts: QueueFacts): QueueStatus {
  const { state } = facts;
  const admitting = judgeAdmission(row, facts);
  const blocked = judgeDeletion(row, facts);
  const found = [
    condition(row, facts, "Admitting", admitting),
    ...(blocked === undefined ? [] : [condition(row, facts, "DeletionBlocked", blocked)]),
  ];
  const { reason, message } = admitting;
  const numbers = state === undefined ? readNumbers(row.status) : describeState(state);
  return { observedGeneration: row.generation, reason, message, ...numbers, conditions: found };
}

/**
 * Whether a queue whose deletion was requested may be deleted: the ledger admits no further work to it, and it has neither work nor queues below it. An answer
 * without the queue is not enough: a ledger whose bucket was lost drops the queue and keeps its grants. The mirror also writes queues that are being deleted,
 * so the ledger eventually answers for each of them.
 */
export function isQueueEmpty({ state, isSilent, children }: Omit<QueueFacts, "nowMs">): boolean {
  if (isSilent || children.length > 0) return false;
  return state?.queue?.problem === DELETING && state.pending === 0 && state.admitted === 0;
}

function judgeAdmission({ isDeleting, record }: QueueRow, { state, isSilent }: QueueFacts): Finding {
  const no = (reason: string, message: string): Finding => ({ status: "False", reason, message });
  if (isDeleting) return no("DELETING", `${DELETING}, and admits nothing`);
  if (record.problem !== "") return no("INVALID_SPEC", record.problem);
  if (isSilent) {
    const message = "the ledger does not answer; the numbers are those of its last answer";
    return { status: "Unknown", reason: "LEDGER_AWAY", message };
  }
  if (state === undefined)
    return { status: "Unknown", reason: "NOT_FOLLOWED", message: "the ledger does not follow the queue yet" };
  switch (state.problem) {
    case "":
      return { status: "True", reason: "ADMITTING", message: "it admits work" };
    case "PARENT_MISSING":
      return no(state.problem, `its parent "${record.parent}" does not exist: create it, or remove spec.parent`);
    case "CYCLE":
      return no(state.problem, "it is below itself: change spec.parent of one queue of the cycle");
    case "TOO_DEEP":
      return no(state.problem, "more than 16 queues are above it: change spec.parent");
    case "UNREADABLE":
      return no(state.problem, "a queue above it cannot be read");
    case "HELD":
      return record.stopPolicy === "None"
        ? no(state.problem, "spec.stopPolicy of a queue above it is not None")
        : no(state.problem, `spec.stopPolicy is ${record.stopPolicy}`);
    case "NOT_A_LEAF":
      return no(state.problem, "it has queues below it, and only a leaf queue has work");
    default:
      return no(state.problem, "the ledger admits nothing to it");
  }
}

/** Returns undefined if the deletion was not requested, or no obstacle blocks it. */
function judgeDeletion({ isDeleting }: QueueRow, facts: QueueFacts): Finding | undefined {
  if (!isDeleting || isQueueEmpty(facts)) return undefined;
  const { state, isSilent, children } = facts;
  const blocked = (reason: string, message: string): Finding => ({ status: "True", reason, message });
  if (children.length > 0) {
    const more = children.length - NAMES_SHOWN;
    const names = `${children.slice(0, NAMES_SHOWN).join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
    return blocked("HAS_QUEUES", `it has queues below it: ${names}; delete them, or change their spec.parent`);
  }
  if (isSilent) return blocked("LEDGER_AWAY", "the ledger does not answer, so its work is not known");
  if (state !== undefined && state.pending + state.admitted > 0)
    return blocked(
      "HAS_WORK",
      `it has work: ${state.admitted} admitted and ${state.pending} waiting requests; it is deleted after these`,
    );
  return blocked("NOT_FOLLOWED", "the ledger does not follow the deletion yet");
}

/** Builds a condition, and keeps the transition time if the status is unchanged. */
function condition(
  { generation, status }: QueueRow,
  { nowMs }: QueueFacts,
  type: QueueCondition["type"],
  finding: Finding,
): QueueCondition {
  const before = readConditions(status).find((each) => each.type === type);
  const isSame = before?.status === finding.status && typeof before.lastTransitionTime === "string";
  const lastTransitionTime = isSame ? before.lastTransitionTime : `${new Date(nowMs).toISOString().slice(0, 19)}Z`;
  return { type, ...finding, observedGeneration: generation, lastTransitionTime };
}

function readConditions(status: unknown): readonly Partial<QueueCondition>[] {
  const { conditions } = (status ?? {}) as { readonly conditions?: unknown };
  return Array.isArray(conditions) ? (conditions as readonly Partial<QueueCondition>[]) : [];
}

type Numbers = Pick<QueueStatus, "pending" | "admitted" | "share" | "pools">;

/** Reads the numbers that the status already has. */
function readNumbers(status: unknown): Numbers {
  const { pending, admitted, share, pools } = (status ?? {}) as Partial<Record<keyof Numbers, unknown>>;
  return {
    pending: typeof pending === "number" ? pending : 0,
    admitted: typeof admitted === "number" ? admitted : 0,
    share: typeof share === "string" ? share : "0",
    pools: Array.isArray(pools) ? (pools as Numbers["pools"]) : [],
  };
}

function describeState(state: LedgerQueue): Numbers {
  const { pending, admitted, shareMillionths, quota, used, borrowed } = state;
  const pools = new Set([...quota, ...used, ...borrowed].map(({ pool }) => pool));
  return {
    pending,
    admitted,
    share: String(shareMillionths / 1_000_000),
    pools: [...pools].sort().map((pool) => ({
      pool,
      resources: describePool(
        findPoolAmounts(quota, pool),
        findPoolAmounts(used, pool),
        findPoolAmounts(borrowed, pool),
      ),
    })),
  };
}

type Amounts = ReadonlyMap<string, number>;

function describePool(quota: Amounts, used: Amounts, borrowed: Amounts): readonly ResourceStatus[] {
  const names = new Set([quota, used, borrowed].flatMap((amounts) => [...amounts.keys()]));
  return [...names].sort().map((name) => {
    const own = quota.get(name);
    return {
      name,
      ...(own !== undefined && { quota: printAmount(name, own) }),
      used: printAmount(name, used.get(name) ?? 0),
      borrowed: printAmount(name, borrowed.get(name) ?? 0),
    };
  });
}

/** A Map, because a resource may have the name of a property that every object inherits. */
function findPoolAmounts(pools: readonly PoolAmounts[], pool: string): Amounts {
  return new Map(Object.entries(pools.find((each) => each.pool === pool)?.amounts ?? {}));
}
