import { emptyLedger, evolveLedger, type Ledger } from "@muster/reservation-manager/ledger";
import { entryCodec, nodeCodec, toNodeFacts } from "@muster/reservation-manager/messages";
import { admit, naiveWorldOf, waitingIn } from "@muster/reservation-manager/naive-world";
import type { PairAmounts } from "@muster/reservation-manager/queue";
import type { NodeFacts } from "@muster/reservation-manager/machines";
import { violateInto, type Violation } from "../step-checks.ts";
import type { World } from "../world.ts";
import { nextGrant, rebuildLedger } from "./decision-checks.ts";
import type { Owners } from "./owners.ts";

const POOL_LABEL = "pool";
const SAME_RULE = "6: the log gives the same ledger whenever it is read";
const END_RULE = "3: at the end nothing that waits could be granted";
const START_RULE = "4: what its quota and the machines suffice for starts in the end";
const LEFT_RULE = "at the end no use of a queue and no machine is left";

/** Replays the first entries of the log into a ledger. */
function replayLog({ ledger }: World, entries = ledger.entries.length): Ledger {
  return ledger.entries
    .slice(0, entries)
    .flatMap(({ bytes }) => entryCodec.decode(bytes))
    .reduce(evolveLedger, emptyLedger);
}

/** Checks the ledger of each new leader, which it has read from a snapshot and the entries behind it. */
export function checkRecovered(world: World, violations: Violation[]): (ledger: Ledger, sequence: number) => void {
  const violate = violateInto(world, violations);
  return (ledger, sequence) => {
    const replayed = replayLog(world, sequence);
    for (const [what, other] of [
      ["all entries", replayed],
      ["its reservations", rebuildLedger(replayed)],
    ] as const) {
      const difference = findDifference(describeLedger(ledger), describeLedger(other));
      if (difference !== undefined) violate(undefined, SAME_RULE, `entry ${sequence}, from ${what}: ${difference}`);
    }
  };
}

/** Checks the final state, in which no work and no event is left. */
export function judgeEnd(world: World, owners: Owners): Violation[] {
  const violations: Violation[] = [];
  const found = (session: string | undefined, rule: string, what: string): void => {
    violations.push({ atMs: world.time.nowMs, session, rule, found: what });
  };
  const ledger = tryReplay(world);
  if (ledger instanceof Error) found(undefined, SAME_RULE, `it cannot be read: ${ledger.message}`);
  else judgeLedger(ledger, world, owners, found);
  return violations;
}

function tryReplay(world: World): Ledger | Error {
  try {
    return replayLog(world);
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error));
  }
}

function judgeLedger(
  ledger: Ledger,
  world: World,
  owners: Owners,
  found: (session: string | undefined, rule: string, what: string) => void,
): void {
  const nodes = publishedNodes(world);
  const known = { ledger, nodes, nowMs: world.time.nowMs };
  const next = nextGrant(known);
  if (next !== undefined) found(undefined, END_RULE, `r-${next} waits, and the naive ledger grants it`);
  const naive = naiveWorldOf(known);
  for (const { id } of owners.plans) {
    if (owners.outcomes.has(id)) continue;
    const work = waitingIn(naive).find(({ owner }) => owner.id === id);
    if (work !== undefined && admit({ ...naive, work: [work] }, work) === undefined) continue;
    found(id, START_RULE, work === undefined ? "it does not wait and is not over" : `r-${work.sequence} waits`);
  }
  const held = [...ledger.reservations.values()].filter(({ grant }) => grant !== undefined);
  const used = [...ledger.use.own.entries(), ...ledger.use.tree.entries()].filter(([, amounts]) => amounts.size > 0);
  const leaving = ledger.leaving.size + ledger.beneficiaries.length;
  if (held.length + used.length + ledger.holders.size + ledger.parts.size + ledger.admitted.size + leaving > 0)
    found(
      undefined,
      LEFT_RULE,
      describeLedger(ledger)
        .filter((line) => !line.startsWith("waiting"))
        .join("; "),
    );
}

/** The nodes as the bucket has them. */
function publishedNodes({ nodeStates }: World): readonly NodeFacts[] {
  return [...nodeStates.entries.values()].flatMap(({ bytes }) => {
    const entry = nodeCodec.decode(bytes);
    return entry.kind === "node" ? (toNodeFacts(entry.state, POOL_LABEL) ?? []) : [];
  });
}

function findDifference(one: readonly string[], other: readonly string[]): string | undefined {
  const missing = one.find((line) => !other.includes(line));
  const added = other.find((line) => !one.includes(line));
  if (missing === undefined && added === undefined) return undefined;
  return `it has ${missing ?? "nothing more"}, the other ${added ?? "nothing more"}`;
}

/** Describes the complete state of the ledger, one line per entry. */
function describeLedger(ledger: Ledger): readonly string[] {
  const { reservations, owners, holders, parts, grantedByKind, leaving, limits, queues, use, queue } = ledger;
  const lines = { reservations, owners, holders, parts, grantedByKind, leaving, limits, queues };
  return [
    `next ${ledger.nextSequence}`,
    ...Object.entries({ ...lines, own: use.own, tree: use.tree }).flatMap(([name, map]) =>
      [...map.entries()].map(([key, value]) => `${name} ${key} ${print(value)}`),
    ),
    ...[...ledger.admitted.entries()].map(([name, keys]) => `admitted ${name} ${print([...keys.keys()])}`),
    ...ledger.beneficiaries.map((beneficiary, index) => `beneficiary ${index} ${print(beneficiary)}`),
    ...[...queue.places.keys()].map((place, index) => `waiting ${index} ${print(place)}`),
    ...[...queue.waitingByPool.entries()].map(([pool, count]) => `waitingByPool ${pool} ${count}`),
  ];
}

/** JSON with sorted keys. Without empty maps, which the log does not keep. */
function print(value: unknown): string {
  return JSON.stringify(value, (_key, each: unknown): unknown => {
    if (each instanceof Map) return each.size === 0 ? undefined : Object.fromEntries([...(each as PairAmounts)].sort());
    if (typeof each !== "object" || each === null || Array.isArray(each)) return each;
    return Object.fromEntries(Object.entries(each).sort(([a], [b]) => (a < b ? -1 : 1)));
  });
}
