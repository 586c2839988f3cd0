import { expect, it } from "vitest";
import { judgeQueues } from "./judge-queues.ts";
import type { LedgerFact } from "./observed.ts";
import type { TeamQueue } from "./plan-queues.ts";

const quotas = (nominal: number, borrowingLimit: number) => ({ workers: { nominal, borrowingLimit } });
const TEAMS: readonly TeamQueue[] = [
  { name: "team-a", weight: 1, isReclaiming: false, quotas: quotas(2, 1) },
  { name: "team-b", weight: 1, isReclaiming: false, quotas: quotas(1, 2) },
];
const GRANT = "no grant takes a queue above what it owns and may borrow";
const STATUS = "no status of a queue shows more than it owns and may borrow";

function granted(reservation: string, queue: string, machines: number): LedgerFact {
  const use = new Map([["workers cpu", machines * 4000]]);
  return { kind: "granted", atMs: 1, reservation, work: "j001", nodes: [], queue, use };
}

function ended(reservation: string): LedgerFact {
  return { kind: "ended", atMs: 2, reservation };
}

it.each<{ title: string; ledger: readonly LedgerFact[]; rules: readonly string[] }>([
  { title: "use within what is owned", ledger: [granted("r1", "team-a", 2), granted("r2", "team-b", 1)], rules: [] },
  { title: "what is borrowed within the limit", ledger: [granted("r1", "team-a", 3)], rules: [] },
  { title: "more than may be borrowed", ledger: [granted("r1", "team-a", 4)], rules: [GRANT, GRANT] },
  { title: "more than all own", ledger: [granted("r1", "team-a", 2), granted("r2", "team-b", 2)], rules: [GRANT] },
  {
    title: "use of what was released",
    ledger: [granted("r1", "team-a", 3), ended("r1"), granted("r2", "team-b", 3)],
    rules: [],
  },
])("judges $title", ({ ledger, rules }) => {
  expect(judgeQueues(TEAMS, { ledger }).map(({ rule }) => rule)).toEqual(rules);
});

it("finds a status with more than a queue may use", () => {
  const state = { name: "team-b", reason: "ADMITTING", pending: 0, admitted: 0, used: new Map<string, number>() };
  const seen = (cpu: number) => [{ ...state, maxUsed: new Map([["workers cpu", cpu]]) }];
  expect(judgeQueues(TEAMS, { ledger: [], queues: seen(12_000) })).toEqual([]);
  const findings = judgeQueues(TEAMS, { ledger: [], queues: seen(12_001) });
  expect(findings).toEqual([
    { work: undefined, rule: STATUS, expected: "at most 12000 workers cpu in team-b", found: "12001" },
  ]);
});
