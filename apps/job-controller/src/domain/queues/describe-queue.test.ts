import { describe, expect, it } from "vitest";
import { DELETING } from "@muster/ledger-client/choose-queue";
import { describeQueue, isQueueEmpty, type LedgerQueue, type QueueFacts } from "./describe-queue.ts";
import { QUEUE_FINALIZER, readQueueRow, getRecord, type QueueRow } from "./queue-row.ts";

const NOW_MS = Date.parse("2026-01-02T03:04:05.678Z");
const NOW = "2026-01-02T03:04:05Z";
const EARLIER = "2026-01-01T00:00:00Z";

const row = (spec: object = {}, more: Partial<QueueRow> = {}): QueueRow => ({
  ...readQueueRow({ metadata: { name: "team-a", uid: "u", resourceVersion: "7", generation: 3 }, spec }),
  ...more,
});
const deleting = (more: Partial<QueueRow> = {}): QueueRow =>
  row({}, { isDeleting: true, finalizers: [QUEUE_FINALIZER], ...more });
const state = (more: Partial<LedgerQueue> = {}): LedgerQueue => ({
  ...{
    queue: { problem: "" },
    used: [],
    borrowed: [],
    quota: [],
    pending: 0,
    admitted: 0,
    shareMillionths: 0,
    problem: "",
  },
  ...more,
});
const facts = (more: Partial<QueueFacts> = {}): QueueFacts => ({
  ...{ state: state(), isSilent: false, children: [], nowMs: NOW_MS },
  ...more,
});

describe("the status of a queue", () => {
  it("has the ledger's counts as quantities, by pool and resource", () => {
    const counted = state({
      quota: [{ pool: "gpu", amounts: { cpu: 8000, "nvidia.com/gpu": 8 } }],
      used: [
        { pool: "gpu", amounts: { "nvidia.com/gpu": 10, cpu: 1500, memory: 2 ** 30 } },
        { pool: "cpu", amounts: { cpu: 250 } },
      ],
      borrowed: [{ pool: "gpu", amounts: { "nvidia.com/gpu": 2 } }],
      pending: 4,
      admitted: 3,
      shareMillionths: 125_000,
    });
    expect(describeQueue(row(), facts({ state: counted }))).toEqual({
      observedGeneration: 3,
      reason: "ADMITTING",
      message: "it admits work",
      pending: 4,
      admitted: 3,
      share: "0.125",
      pools: [
        { pool: "cpu", resources: [{ name: "cpu", used: "250m", borrowed: "0" }] },
        {
          pool: "gpu",
          resources: [
            { name: "cpu", quota: "8", used: "1500m", borrowed: "0" },
            { name: "memory", used: "1Gi", borrowed: "0" },
            { name: "nvidia.com/gpu", quota: "8", used: "10", borrowed: "2" },
          ],
        },
      ],
      conditions: [
        {
          ...{ type: "Admitting", status: "True", reason: "ADMITTING", message: "it admits work" },
          ...{ observedGeneration: 3, lastTransitionTime: NOW },
        },
      ],
    });
  });

  it("has resources named like properties of every object", () => {
    const amounts: Record<string, number> = { toString: 3, ["__proto__"]: 4 };
    const counted = state({
      quota: [{ pool: "gpu", amounts: { constructor: 8 } }],
      used: [{ pool: "gpu", amounts }],
    });
    expect(describeQueue(row(), facts({ state: counted })).pools).toEqual([
      {
        pool: "gpu",
        resources: [
          { name: "__proto__", used: "4", borrowed: "0" },
          { name: "constructor", quota: "8", used: "0", borrowed: "0" },
          { name: "toString", used: "3", borrowed: "0" },
        ],
      },
    ]);
  });

  it("has sums above 2^53 exactly as the ledger sent them", () => {
    const quota = [{ pool: "gpu", amounts: { memory: 3 * 2 ** 53, pods: 2 ** 60, cpu: 1000 * 2 ** 53 } }];
    const [pool] = describeQueue(row(), facts({ state: state({ quota }) })).pools;
    expect(pool?.resources.map(({ name, quota: own }) => `${name} ${own}`)).toEqual([
      "cpu 8Pi",
      "memory 24Pi",
      "pods 1Ei",
    ]);
  });

  it.each<[string, QueueRow, Partial<QueueFacts>, string]>([
    [
      "an unreadable spec",
      row({ weight: -1 }),
      {},
      "False INVALID_SPEC: spec.weight: must be a number from 0 to 1000000 with at most three decimal places, such as 0.5, not -1",
    ],
    [
      "a missing parent",
      row({ parent: "x" }),
      { state: state({ problem: "PARENT_MISSING" }) },
      'False PARENT_MISSING: its parent "x" does not exist: create it, or remove spec.parent',
    ],
    [
      "a cycle",
      row(),
      { state: state({ problem: "CYCLE" }) },
      "False CYCLE: it is below itself: change spec.parent of one queue of the cycle",
    ],
    [
      "a hold",
      row({ stopPolicy: "Hold" }),
      { state: state({ problem: "HELD" }) },
      "False HELD: spec.stopPolicy is Hold",
    ],
    [
      "a hold of a queue above it",
      row(),
      { state: state({ problem: "HELD" }) },
      "False HELD: spec.stopPolicy of a queue above it is not None",
    ],
    [
      "too many queues above it",
      row(),
      { state: state({ problem: "TOO_DEEP" }) },
      "False TOO_DEEP: more than 16 queues are above it: change spec.parent",
    ],
    [
      "a queue above it that cannot be read",
      row(),
      { state: state({ problem: "UNREADABLE" }) },
      "False UNREADABLE: a queue above it cannot be read",
    ],
    [
      "queues below it",
      row(),
      { state: state({ problem: "NOT_A_LEAF" }) },
      "False NOT_A_LEAF: it has queues below it, and only a leaf queue has work",
    ],
    ["a later word", row(), { state: state({ problem: "PAUSED" }) }, "False PAUSED: the ledger admits nothing to it"],
    [
      "a ledger that is behind",
      row(),
      { state: undefined },
      "Unknown NOT_FOLLOWED: the ledger does not follow the queue yet",
    ],
    [
      "a silent ledger",
      row(),
      { state: undefined, isSilent: true },
      "Unknown LEDGER_AWAY: the ledger does not answer; the numbers are those of its last answer",
    ],
    ["its deletion", deleting(), {}, "False DELETING: it is being deleted, and admits nothing"],
  ])("names %s", (_title, queue, known, expected) => {
    const { reason, message, conditions } = describeQueue(queue, facts(known));
    const [admitting] = conditions;
    expect(`${admitting?.status} ${admitting?.reason}: ${admitting?.message}`).toBe(expected);
    expect([reason, message]).toEqual([admitting?.reason, admitting?.message]);
  });

  it("keeps the numbers while the ledger is silent, and the time while the status of a condition is unchanged", () => {
    const before = describeQueue(
      row(),
      facts({
        state: state({ pending: 4, shareMillionths: 1, quota: [{ pool: "p", amounts: { cpu: 1 } }] }),
        nowMs: Date.parse(EARLIER),
      }),
    );
    const silent = describeQueue(row({}, { status: before }), facts({ state: undefined, isSilent: true }));
    expect(silent).toMatchObject({ pending: 4, share: "0.000001", pools: before.pools });
    expect(silent.conditions).toMatchObject([{ status: "Unknown", lastTransitionTime: NOW }]);
    const same = describeQueue(row({}, { status: before }), facts({ state: state({ pending: 9 }) }));
    expect(same.conditions).toMatchObject([{ status: "True", lastTransitionTime: EARLIER }]);
  });

  it.each([
    [undefined],
    ["text"],
    [{ conditions: "x", pools: 1, pending: "2" }],
    [{ conditions: [{ type: "Admitting", status: "True" }] }],
  ])("replaces %j", (status) => {
    expect(describeQueue(row({}, { status }), facts())).toEqual(describeQueue(row(), facts()));
    const numbers = { pending: 0, admitted: 0, share: "0", pools: [] };
    expect(describeQueue(row({}, { status }), facts({ state: undefined }))).toMatchObject(numbers);
  });
});

describe("a queue whose deletion was requested", () => {
  const followed = { queue: { problem: DELETING } };

  it("admits nothing from then on", () => {
    expect(getRecord(deleting()).problem).toBe(DELETING);
    expect(getRecord(row()).problem).toBe("");
  });

  it.each<[string, Partial<QueueFacts>, string | undefined]>([
    ["goes when it is empty", { state: state(followed) }, undefined],
    [
      "stays while the ledger does not have it, though grants may be left",
      { state: undefined },
      "NOT_FOLLOWED: the ledger does not follow the deletion yet",
    ],
    [
      "stays with queues below it",
      { state: state(followed), children: ["b", "c"] },
      "HAS_QUEUES: it has queues below it: b, c; delete them, or change their spec.parent",
    ],
    [
      "stays with many queues below it, and names five",
      { state: undefined, children: ["b", "c", "d", "e", "f", "g", "h"] },
      "HAS_QUEUES: it has queues below it: b, c, d, e, f and 2 more; delete them, or change their spec.parent",
    ],
    [
      "stays with admitted work",
      { state: state({ ...followed, admitted: 2 }) },
      "HAS_WORK: it has work: 2 admitted and 0 waiting requests; it is deleted after these",
    ],
    [
      "stays with waiting work",
      { state: state({ ...followed, pending: 1 }) },
      "HAS_WORK: it has work: 0 admitted and 1 waiting requests; it is deleted after these",
    ],
    [
      "stays until the ledger follows the deletion",
      { state: state() },
      "NOT_FOLLOWED: the ledger does not follow the deletion yet",
    ],
    [
      "stays while the ledger is silent",
      { state: undefined, isSilent: true },
      "LEDGER_AWAY: the ledger does not answer, so its work is not known",
    ],
  ])("%s", (_title, known, blocked) => {
    expect(isQueueEmpty(facts(known))).toBe(blocked === undefined);
    const found = describeQueue(deleting(), facts(known)).conditions.find(({ type }) => type === "DeletionBlocked");
    expect(found && `${found.reason}: ${found.message}`).toBe(blocked);
    expect(describeQueue(row(), facts(known)).conditions.map(({ type }) => type)).toEqual(["Admitting"]);
  });
});
