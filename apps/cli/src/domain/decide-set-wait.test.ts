import { expect, it } from "vitest";
import { makeReplica, makeReplicaSet, makeRollout } from "../../test/a-replica-set.ts";
import { decideRolled, decideRollEnd, decideRollWait, decideSetWait } from "./decide-set-wait.ts";
import type { WaitVerdict, WaitGoal } from "./decide-wait.ts";
import type { ReplicaSet, RolloutRecord } from "../adapters/farm-messages.ts";

function goal(type: string, isTrue = true): WaitGoal {
  return { kind: "condition", type, isTrue };
}

const TRANSFER = { oldNode: "n-1", newNode: "n-3", because: "", startedAtMs: 0, givenUpAtMs: 0 };

it.each<[title: string, set: Partial<ReplicaSet>, goal: WaitGoal, verdict: WaitVerdict]>([
  ["is ready", {}, goal("ready"), "met"],
  ["is not ready while a pod is not ready", { healthy: 1 }, goal("Ready"), "open"],
  [
    "is not ready while it has a surplus pod",
    { replicas: ["a", "b", "c"].map((n) => makeReplica(n)) },
    goal("Ready"),
    "open",
  ],
  ["is not ready while it leaves a node", { transfer: TRANSFER }, goal("Ready"), "open"],
  ["is available while it leaves a node", { transfer: TRANSFER }, goal("Available"), "met"],
  ["is no longer transferring", {}, goal("Transferring", false), "met"],
  ["is rolling", { roll: "web-2" }, goal("Rolling"), "met"],
  ["is disabled", { disabled: true }, goal("Disabled"), "met"],
  ["has no trouble", {}, goal("Troubled"), "open"],
  [
    "will never be ready once it is deleted",
    { deletion: { keepPods: false, atMs: 0 }, healthy: 0 },
    goal("Ready"),
    "never",
  ],
  [
    "does not meet its deletion before it is gone",
    { deletion: { keepPods: false, atMs: 0 } },
    { kind: "delete" },
    "open",
  ],
])("a set %s", (_title, set, wished, verdict) => {
  expect(decideSetWait(makeReplicaSet(set), wished)).toBe(verdict);
});

it("an existing rolling update is not complete, and may be paused", () => {
  expect(decideRollWait(makeRollout(), goal("Complete"))).toBe("open");
  expect(decideRollWait(makeRollout({ phase: "PAUSED" }), goal("Paused"))).toBe("met");
});

it.each<[title: string, set: Partial<ReplicaSet>, verdict: WaitVerdict]>([
  ["all have been ready for long enough", {}, "met"],
  ["one is starting", { healthy: 1 }, "open"],
  ["one has failed", { healthy: 1, replicas: [makeReplica("a"), { ...makeReplica("b"), health: "FAILED" }] }, "never"],
  ["one ends repeatedly", { healthy: 0, replicas: [{ ...makeReplica("a"), reason: "CrashLoopBackOff" }] }, "never"],
  ["the farm reports trouble", { healthy: 1, trouble: { code: "NOT_HEALTHY", message: "", sinceMs: 0 } }, "never"],
])("the pods of a new set when %s", (_title, set, verdict) => {
  expect(decideRolled(makeReplicaSet(set), 5000)).toBe(verdict);
});

it("pods that are ready for a moment may be those of a program that exits immediately", () => {
  expect(decideRolled(makeReplicaSet(), 4999)).toBe("open");
  expect(decideRolled(makeReplicaSet({ desired: 0, healthy: 0, replicas: [] }), 0)).toBe("met");
});

it.each<[title: string, last: Partial<RolloutRecord>, set: ReplicaSet | undefined, end: "complete" | "undone"]>([
  ["complete when its new set has its replicas", {}, makeReplicaSet(), "complete"],
  [
    "complete when its end was observed, whatever happened to the set since",
    { phase: "FINISHING" },
    makeReplicaSet({ desired: 1 }),
    "complete",
  ],
  ["not when it was undone", { undone: 1 }, makeReplicaSet(), "undone"],
  ["not when its new set is gone", {}, undefined, "undone"],
  ["not when another replaced it before it began", { phase: "CREATING" }, makeReplicaSet({ desired: 0 }), "undone"],
  ["not when its old set was deleted meanwhile", {}, makeReplicaSet({ desired: 1 }), "undone"],
])("a deleted rolling update is %s", (_title, last, set, end) => {
  expect(decideRollEnd(makeRollout(), makeRollout(last), set)).toBe(end);
});

it("a rolling update that was read only while it was undone is complete once it is undone", () => {
  const roll = makeRollout({ undone: 1 });
  expect(decideRollEnd(roll, roll, makeReplicaSet())).toBe("complete");
});
