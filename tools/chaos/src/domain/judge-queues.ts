import type { Finding } from "./finding.ts";
import type { LedgerFact, RunObservations } from "./observed.ts";
import { MACHINE, ROOT_QUEUE, SESSION_QUEUE, type TeamQueue } from "./plan-queues.ts";

const MACHINE_AMOUNTS: Readonly<Record<string, number>> = {
  cpu: MACHINE.cpu * 1000,
  memory: MACHINE.memoryGi * 2 ** 30,
};

/** Checks that no queue ever used more than it owns and may borrow, and that its tree never used more than all own. */
export function judgeQueues(
  teams: readonly TeamQueue[],
  { ledger, queues = [] }: Pick<RunObservations, "ledger" | "queues">,
): Finding[] {
  const limits = computeLimits(teams);
  return [
    ...judgeGrants(ledger, limits),
    ...queues.flatMap(({ name, maxUsed }) =>
      judgeUse(name, maxUsed, limits).map((found) => ({
        work: undefined,
        rule: "no status of a queue shows more than it owns and may borrow",
        ...found,
      })),
    ),
  ];
}

type Limits = ReadonlyMap<string, ReadonlyMap<string, number>>;

/** Computes limits by queue, and by pool and resource. */
function computeLimits(teams: readonly TeamQueue[]): Limits {
  const limits = new Map<string, Map<string, number>>();
  const add = (queue: string, pool: string, machines: number): void => {
    const ofQueue = limits.get(queue) ?? new Map<string, number>();
    limits.set(queue, ofQueue);
    for (const [resource, amount] of Object.entries(MACHINE_AMOUNTS)) {
      const pair = `${pool} ${resource}`;
      ofQueue.set(pair, (ofQueue.get(pair) ?? 0) + machines * amount);
    }
  };
  for (const { name, quotas } of teams)
    for (const [pool, { nominal, borrowingLimit }] of Object.entries(quotas)) {
      add(name, pool, nominal + borrowingLimit);
      add(ROOT_QUEUE, pool, nominal);
    }
  return limits;
}

function judgeGrants(ledger: readonly LedgerFact[], limits: Limits): Finding[] {
  const grants = new Map<string, Extract<LedgerFact, { kind: "granted" }>>();
  const findings: Finding[] = [];
  for (const entry of ledger) {
    if (entry.kind === "ended") {
      grants.delete(entry.reservation);
      continue;
    }
    const { queue, reservation, work } = entry;
    // The queue of sessions has no limits, and is not in the tree of the teams.
    if (queue === undefined || queue === SESSION_QUEUE) continue;
    grants.set(reservation, entry);
    const uses = [...grants.values()];
    const found = [
      ...judgeUse(queue, sumGrants(uses.filter((each) => each.queue === queue)), limits),
      ...judgeUse(ROOT_QUEUE, sumGrants(uses), limits),
    ];
    const rule = "no grant takes a queue above what it owns and may borrow";
    findings.push(...found.map((each) => ({ work, rule, ...each })));
  }
  return findings;
}

function judgeUse(
  queue: string,
  used: ReadonlyMap<string, number>,
  limits: Limits,
): Pick<Finding, "expected" | "found">[] {
  return [...(limits.get(queue) ?? [])].flatMap(([pair, limit]) => {
    const amount = used.get(pair) ?? 0;
    return amount <= limit ? [] : [{ expected: `at most ${limit} ${pair} in ${queue}`, found: String(amount) }];
  });
}

function sumGrants(grants: readonly Extract<LedgerFact, { kind: "granted" }>[]): ReadonlyMap<string, number> {
  const sums = new Map<string, number>();
  for (const { use = [] } of grants) for (const [pair, amount] of use) sums.set(pair, (sums.get(pair) ?? 0) + amount);
  return sums;
}
