import { printAmount, roundAmount } from "@muster/resources";
import type { Queue } from "../adapters/queue-messages.ts";
import type { Pool, Reservation } from "../adapters/reservation-messages.ts";
import { buildPassedCheck, buildWarningCheck, type Check, type ObservedValue } from "./check.ts";
import { describeQueueProblem } from "./describe-queue-problem.ts";
import { listSome } from "./list-some.ts";
import { formatCount } from "./plural.ts";
import { isBroken, placeQueues, getRootQueue, type PlacedQueue } from "./queue-tree.ts";
import type { Work } from "./work.ts";

/** The maximum number of queues, amounts or owners that a check names. */
const MAX_NAMED = 3;

export type SeenQueues = {
  readonly queues: ObservedValue<readonly Queue[]>;
  readonly pools: ObservedValue<readonly Pool[]>;
  readonly jobs: ObservedValue<readonly Pick<Work, "kind" | "name" | "events">[]>;
  readonly reservations: ObservedValue<readonly Reservation[]>;
};

/** Checks whether queues can admit their work. If the ledger does not answer, the check of the services reports it. */
export function buildQueueChecks({ queues, pools, jobs, reservations }: SeenQueues): Check[] {
  if ("trouble" in queues) return [];
  const placed = placeQueues(queues.value);
  const findings = [
    ...checkProblems(placed),
    ...checkUnowned(placed),
    ...("trouble" in pools ? [] : checkPools(placed, pools.value)),
    ...checkUnknown(jobs, reservations),
  ];
  if (findings.length > 0 || placed.length === 0) return findings;
  const held = placed.filter(({ problem }) => problem === "HELD").map(({ name }) => name);
  const isHeld = held.length === 0 ? "" : `; held: ${listSome(held, MAX_NAMED, ",")}`;
  return [buildPassedCheck("queues", `${formatCount(placed.length, "queue")} without a problem${isHeld}`)];
}

/** A deliberately held queue is a problem only if work waits. */
function checkProblems(queues: readonly PlacedQueue[]): Check[] {
  const found = queues.flatMap((queue) => {
    const problem = isBroken(queue) || queue.pending > 0 ? describeQueueProblem(queue) : undefined;
    return problem === undefined ? [] : [{ queue, ...problem }];
  });
  const [first] = found;
  if (first === undefined) return [];
  const texts = found.map(({ queue: { name, problem, pending }, message }) => {
    return `${name} admits nothing: ${problem}: ${message}${pending > 0 ? `; ${formatCount(pending, "request")} waiting` : ""}`;
  });
  const next =
    found.length === 1 ? first.next : `of ${first.queue.name}: ${first.next}; \`muster queues\` has the others`;
  return [buildWarningCheck("queues", listSome(texts, MAX_NAMED, ";"), next)];
}

/** Finds leaves that own nothing, while a queue beside or above them has quotas: they get only what others lend. */
function checkUnowned(queues: readonly PlacedQueue[]): Check[] {
  const trees = new Set(queues.filter(({ hasQuotas }) => hasQuotas).map(getRootQueue));
  const unowned = queues.filter(
    (queue) =>
      queue.children.length === 0 &&
      !isBroken(queue) &&
      trees.has(getRootQueue(queue)) &&
      queue.path.every(({ hasQuotas }) => !hasQuotas),
  );
  if (unowned.length === 0) return [];
  const names = unowned.map(({ name }) => name);
  const verb = names.length === 1 ? "has" : "have";
  return [
    buildWarningCheck(
      "queues without quota",
      `${listSome(names, MAX_NAMED, ",")} ${verb} no quota, nor has a queue above; others of the tree have one`,
      "such a queue gets only what the others lend: give it spec.quotas, or give its parent some; `muster queues` shows the tree",
    ),
  ];
}

/** Finds quotas that no machine can back. Skips pools that may grow, because they have no fixed size, and pools of unknown size. */
function checkPools(queues: readonly PlacedQueue[], pools: readonly Pool[]): Check[] {
  const byName = new Map(pools.map((pool) => [pool.name, pool]));
  const sums = sumOfTrees(queues);
  const missing = [...new Set(sums.map(({ pool }) => pool))].filter((name) => !byName.has(name));
  const over = sums.filter(({ pool, resource, nominal }) => {
    const { allocatable = {}, elasticMax = 0 } = byName.get(pool) ?? {};
    return elasticMax === 0 && Object.keys(allocatable).length > 0 && nominal > (allocatable[resource] ?? 0);
  });
  const texts = over.map(({ root, pool, resource, nominal }) => {
    const has = roundAmount(resource, byName.get(pool)?.allocatable[resource] ?? 0);
    return `the tree of ${root} owns ${printAmount(resource, nominal)} ${resource} of ${pool}, which has ${has}`;
  });
  return [
    ...(missing.length === 0
      ? []
      : [
          buildWarningCheck(
            "pools of queues",
            `quotas name pools that do not exist: ${listSome(missing, MAX_NAMED, ",")}`,
            "correct spec.quotas, or label nodes with the pool: `muster pools` lists the pools",
          ),
        ]),
    ...(over.length === 0
      ? []
      : [
          buildWarningCheck(
            "quotas and machines",
            listSome(texts, MAX_NAMED, ";"),
            "lower nominal, or add machines: work within its quota waits for machines until then",
          ),
        ]),
  ];
}

type TreeSum = { readonly root: string; readonly pool: string; readonly resource: string; readonly nominal: number };

/** The sum of the nominal quotas of each tree. */
function sumOfTrees(queues: readonly PlacedQueue[]): readonly TreeSum[] {
  const sums = new Map<string, TreeSum>();
  for (const queue of queues)
    for (const { pool, resource, stated } of queue.amounts) {
      if (stated === undefined || stated.nominal === 0) continue;
      const root = getRootQueue(queue);
      const key = JSON.stringify([root, pool, resource]);
      sums.set(key, { root, pool, resource, nominal: (sums.get(key)?.nominal ?? 0) + stated.nominal });
    }
  return [...sums.values()];
}

const UNKNOWN = "QUEUE_UNKNOWN";

/** A missing queue concerns jobs, which the ledger refuses without a reservation, and reservations, which may outlive their queue. */
function checkUnknown(jobs: SeenQueues["jobs"], reservations: SeenQueues["reservations"]): Check[] {
  const ofJobs = "trouble" in jobs ? [] : jobs.value.filter(({ events }) => events.at(-1)?.reason === UNKNOWN);
  const ofLedger =
    "trouble" in reservations ? [] : reservations.value.filter(({ because }) => because?.code === UNKNOWN);
  const names = [
    ...ofJobs.map(({ kind, name }) => `${kind}/${name}`),
    ...ofLedger.map(({ ownerKind, ownerId, queue = "" }) => `${ownerKind}/${ownerId} (queue ${queue})`),
  ];
  if (names.length === 0) return [];
  return [
    buildWarningCheck(
      "work without a queue",
      `its queue does not exist, or may not have it: ${listSome(names, MAX_NAMED, ",")}`,
      "`muster explain` shows the queue of each: create it, or correct the label muster.dev/queue; `muster queues` lists those that exist",
    ),
  ];
}
