import { expect, it } from "vitest";
import { aReplica, aReplicaSet, aRollOf } from "./a-replica-set.ts";
import { decideRolled, decideRollEnd, decideRollWait, decideSetWait } from "./decide-set-wait.ts";
import type { WaitVerdict, Wish } from "./decide-wait.ts";
import type { ReplicaSet } from "./replica-set.ts";

function wish(type: string, is = true): Wish {
  return { for: "condition", type, is };
}

const TRANSFER = { oldNode: "n-1", newNode: "n-3", because: "", startedAtMs: 0, givenUpAtMs: 0 };

it.each<[title: string, set: Partial<ReplicaSet>, wish: Wish, verdict: WaitVerdict]>([
  ["is ready", {}, wish("ready"), "met"],
  ["is not ready while a pod is not", { healthy: 1 }, wish("Ready"), "open"],
  ["is not ready while one is too many", { replicas: ["a", "b", "c"].map((n) => aReplica(n)) }, wish("Ready"), "open"],
  ["is not ready while it leaves a node", { transfer: TRANSFER }, wish("Ready"), "open"],
  ["is available while it leaves a node", { transfer: TRANSFER }, wish("Available"), "met"],
  ["has left", {}, wish("Transferring", false), "met"],
  ["is rolling", { roll: "web-2" }, wish("Rolling"), "met"],
  ["is disabled", { disabled: true }, wish("Disabled"), "met"],
  ["has no trouble", {}, wish("Troubled"), "open"],
  [
    "will never be ready once it is deleted",
    { deletion: { keepPods: false, atMs: 0 }, healthy: 0 },
    wish("Ready"),
    "never",
  ],
  ["is waited for until it is gone", { deletion: { keepPods: false, atMs: 0 } }, { for: "delete" }, "open"],
])("a set %s", (_title, set, wished, verdict) => {
  expect(decideSetWait(aReplicaSet(set), wished)).toBe(verdict);
});

it("a rolling update that is there is not complete, and may be paused", () => {
  expect(decideRollWait(aRollOf(), wish("Complete"))).toBe("open");
  expect(decideRollWait(aRollOf({ phase: "PAUSED" }), wish("Paused"))).toBe("met");
});

it.each<[title: string, set: Partial<ReplicaSet>, verdict: WaitVerdict]>([
  ["all are ready", {}, "met"],
  ["one is starting", { healthy: 1 }, "open"],
  ["one has failed", { healthy: 1, replicas: [aReplica("a"), { ...aReplica("b"), health: "FAILED" }] }, "never"],
  ["one ends again and again", { healthy: 0, replicas: [{ ...aReplica("a"), reason: "CrashLoopBackOff" }] }, "never"],
  ["the farm says so", { healthy: 1, trouble: { code: "NOT_HEALTHY", message: "", sinceMs: 0 } }, "never"],
])("the pods that were rolled to when %s", (_title, set, verdict) => {
  expect(decideRolled(aReplicaSet(set))).toBe(verdict);
});

it("a rolling update that is gone is complete when its new set is free, and undone when it went back", () => {
  const roll = aRollOf();
  expect(decideRollEnd(roll, roll, aReplicaSet())).toBe("complete");
  expect(decideRollEnd(roll, { ...roll, undone: 1 }, aReplicaSet())).toBe("undone");
  expect(decideRollEnd(roll, roll, undefined)).toBe("undone");
  expect(decideRollEnd({ ...roll, undone: 1 }, { ...roll, undone: 1 }, aReplicaSet())).toBe("complete");
});
