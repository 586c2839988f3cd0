import type { Fault } from "@muster/faults";
import { checkDnsLabel, checkLabelKey, checkLabelValue } from "@muster/names";
import {
  listAcceptedPools,
  countPoolOptions,
  getMinimum,
  NODE_SELECTOR_OPERATORS,
  buildNodeSelectionKey,
  type Amounts,
  type NodeSelection,
} from "@muster/resources";
import type { LimitRequest } from "./decide-limit.ts";
import type { ReleaseRequest } from "./decide-reservation-release.ts";
import type { Owner } from "@muster/names";
import { shareBytes, type Need } from "../ledger/reservation.ts";

/** Limit of needs per request, each for one machine or part. A larger gang is probably a mistake. */
export const MAX_NEEDS = 1000;

/** Limit of resources per need. A node has about five, and a few more with accelerators. */
export const MAX_RESOURCES = 16;

/** Limit of bytes of all shares of a request together. A log entry of at most 768 KiB contains the shares twice, beside names of up to 520 KiB. */
export const MAX_SHARE_BYTES = 100_000;

/** Limit of different node selections per request: each component of a session may have its own minimum. */
export const MAX_SELECTIONS = 200;

/** Limit of characters of all different node selections per request, because each log entry with the request contains them. */
export const MAX_SELECTION_LENGTH = 16_000;

/** Limit of pools that one need accepts. */
export const MAX_POOLS = 8;

/** Limit of pool choices per request, because the queue has an index entry for each. */
export const MAX_OPTIONS = 16;

/** The request of an owner, granted completely or not at all. */
export type ReservationRequest = {
  readonly owner: Owner;
  readonly needs: readonly Need[];
  /** As in `Reservation`. */
  readonly topology?: string;
  /** As in `Reservation`. */
  readonly queue?: string;
  /** As in `Reservation`. */
  readonly notPreemptible?: true;
  /** As in `Reservation`. */
  readonly beyondMinimum?: true;
  /** As in `Reservation`. */
  readonly graceMs?: number;
  /** Whether the request waits if machines are short now. */
  readonly wait: boolean;
  readonly priority: number;
  /** Replaces the concurrency limit of the owner's kind, also for waiting requests; 0: no limit. */
  readonly concurrencyLimit: number;
};

/** Limit of the grace, because an owner waits that long for machines of its own quota. */
export const MAX_GRACE_MS = 3_600_000;

/** Returns the first error that needs no ledger to detect; undefined: none. */
export function checkRequest({ owner, needs, topology, queue, graceMs = 0 }: ReservationRequest): Fault | undefined {
  if (graceMs > MAX_GRACE_MS)
    return { code: "invalid_request", field: "grace_ms", reason: `is ${graceMs}; at most ${MAX_GRACE_MS} is possible` };
  if (needs.length === 0) return { code: "invalid_request", field: "needs", reason: "is empty; one need at least" };
  if (needs.length > MAX_NEEDS)
    return { code: "limit_exceeded", what: "needs of one reservation", limit: MAX_NEEDS, retryAfterMs: 0 };
  const wrong = checkOwner(owner) ?? checkNeeds(needs) ?? (queue === undefined ? undefined : checkQueue(queue));
  if (wrong !== undefined || topology === undefined) return wrong;
  return checkLabelKey("topology", topology);
}

export function checkOwner({ kind, id }: Owner): Fault | undefined {
  return checkDnsLabel("owner.kind", kind) ?? checkDnsLabel("owner.id", id);
}

export function checkRelease({ owner, reservationId }: ReleaseRequest): Fault | undefined {
  const wrong = checkOwner(owner);
  if (wrong !== undefined || reservationId !== "") return wrong;
  return {
    code: "invalid_request",
    field: "reservation_id",
    reason: "is empty; the id that Reserve answered is needed",
  };
}

export function checkLimit({ ownerKind }: LimitRequest): Fault | undefined {
  return checkDnsLabel("owner_kind", ownerKind);
}

function checkNeeds(needs: readonly Need[]): Fault | undefined {
  const bytes = needs.reduce((sum, { shared }) => sum + shareBytes(shared), 0);
  if (bytes > MAX_SHARE_BYTES)
    return {
      code: "limit_exceeded",
      what: "bytes of the requests of all needs",
      limit: MAX_SHARE_BYTES,
      retryAfterMs: 0,
    };
  const wrong = checkSelections(needs);
  if (wrong !== undefined) return wrong;
  const components = new Set<string>();
  for (const [index, need] of needs.entries()) {
    const { component, pool, shared } = need;
    const field = `needs[${index}]`;
    const fault =
      checkDnsLabel(`${field}.component`, component) ??
      checkPool(`${field}.pool`, pool) ??
      checkOtherPools(`the further pools of ${field}`, need) ??
      checkAmounts(`${field}.shared.requests`, shared);
    if (fault !== undefined) return fault;
    if (components.has(component))
      return { code: "invalid_request", field: `${field}.component`, reason: `"${component}" is there twice` };
    components.add(component);
  }
  return countPoolOptions(needs) <= MAX_OPTIONS
    ? undefined
    : tooMany("choices of pools of one reservation", MAX_OPTIONS);
}

function checkOtherPools(field: string, need: Need): Fault | undefined {
  const pools = listAcceptedPools(need);
  if (pools.length > MAX_POOLS) return tooMany(`pools of ${field}, with the first one`, MAX_POOLS);
  for (const [index, pool] of pools.entries()) {
    if (index === 0) continue;
    const wrong = checkPool(`${field}[${index - 1}]`, pool);
    if (wrong !== undefined) return wrong;
    if (pools.indexOf(pool) < index)
      return { code: "invalid_request", field: `${field}[${index - 1}]`, reason: `"${pool}" is there twice` };
  }
  return undefined;
}

function tooMany(what: string, limit: number): Fault {
  return { code: "limit_exceeded", what, limit, retryAfterMs: 0 };
}

const OPERATORS: readonly string[] = NODE_SELECTOR_OPERATORS;

function checkSelections(needs: readonly Need[]): Fault | undefined {
  const selections = new Map<string, NodeSelection>();
  for (const { selection } of needs)
    if (selection !== undefined) selections.set(buildNodeSelectionKey(selection), selection);
  if (selections.size > MAX_SELECTIONS)
    return {
      code: "limit_exceeded",
      what: "number of node selections of one request",
      limit: MAX_SELECTIONS,
      retryAfterMs: 0,
    };
  const length = [...selections.keys()].reduce((sum, key) => sum + key.length, 0);
  if (length > MAX_SELECTION_LENGTH) {
    const what = "number of characters in the node selections of one request";
    return { code: "limit_exceeded", what, limit: MAX_SELECTION_LENGTH, retryAfterMs: 0 };
  }
  for (const selection of selections.values()) {
    const wrong = checkAmounts("node_selections: minimum", getMinimum(selection));
    if (wrong !== undefined) return wrong;
  }
  for (const { terms } of selections.values())
    for (const { matchExpressions = [], matchFields = [] } of terms)
      for (const { operator } of [...matchExpressions, ...matchFields])
        if (!OPERATORS.includes(operator)) {
          const reason = `is "${operator}"; one of ${OPERATORS.join(", ")} is needed`;
          return { code: "invalid_request", field: "node_selections: the operator of a requirement", reason };
        }
  return undefined;
}

/** The name of a Queue in Kubernetes: a DNS subdomain. */
const QUEUE_NAME = /^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/;

function checkQueue(queue: string): Fault | undefined {
  if (QUEUE_NAME.test(queue)) return undefined;
  const reason = `is "${queue}"; the name of a queue has lower-case letters, digits, "-" and "."`;
  return { code: "invalid_request", field: "queue", reason };
}

function checkPool(field: string, pool: string): Fault | undefined {
  if (pool === "") return { code: "invalid_request", field, reason: "is empty; the name of a pool is needed" };
  return checkLabelValue(field, pool);
}

function checkAmounts(field: string, requests: Amounts = new Map()): Fault | undefined {
  if (requests.size > MAX_RESOURCES)
    return { code: "limit_exceeded", what: `resources in ${field}`, limit: MAX_RESOURCES, retryAfterMs: 0 };
  for (const [resource, amount] of requests) {
    const wrong = checkLabelKey(`${field}: the name of a resource`, resource);
    if (wrong !== undefined) return wrong;
    if (!Number.isSafeInteger(amount) || amount < 0)
      return {
        code: "invalid_request",
        field: `${field}[${resource}]`,
        reason: `is ${amount}; a whole number from 0 to ${Number.MAX_SAFE_INTEGER} is needed`,
      };
  }
  return undefined;
}
