import { expect, it } from "vitest";
import { makeSnapshot, makeTransfer, makePlacedSet } from "../../test/a-set.ts";
import { explainMissingPod } from "./explain-missing-pod.ts";
import type { SetSnapshot } from "./set-snapshot.ts";

const set = makePlacedSet(["a"]);
const withNodes = (unusable: Readonly<Record<string, string>>): Partial<SetSnapshot> => ({
  nodes: { eligible: new Set(), usable: new Set(), unusable: new Map(Object.entries(unusable)), foreign: new Map() },
});

it.each<[title: string, snapshot: SetSnapshot, reason: string, message: RegExp]>([
  ["its node is gone", makeSnapshot(set, [], withNodes({})), "NODE_GONE", /^node a is gone$/],
  [
    "its node is cordoned",
    makeSnapshot(set, [], withNodes({ a: "it is cordoned" })),
    "NODE_UNUSABLE",
    /it is cordoned$/,
  ],
  ["the node of a disabled set is gone", makeSnapshot({ ...set, disabled: true }, []), "NODE_GONE", /is gone$/],
  ["the watcher is silent", makeSnapshot(set, [], { nodes: undefined }), "NO_POD", /watcher is silent/],
  ["the set is disabled", makeSnapshot({ ...set, disabled: true }, ["a"]), "NO_POD", /set is disabled/],
  [
    "the transfer of a disabled set needs it",
    makeSnapshot({ ...set, disabled: true, transfer: makeTransfer("b", "a") }, ["a"]),
    "NO_POD",
    /creates one soon/,
  ],
  [
    "a pod of the pod id belongs to no set",
    makeSnapshot(set, [], {
      nodes: { eligible: new Set(), usable: new Set(["a"]), unusable: new Map(), foreign: new Map([["a", "web-9"]]) },
    }),
    "NO_POD",
    /^pod web-9, which belongs to no replica set, runs pod id web there$/,
  ],
  ["the farm creates it next", makeSnapshot(set, ["a"]), "NO_POD", /creates one soon/],
])("a placement has no pod because %s", (_title, snapshot, reason, message) => {
  const explained = explainMissingPod(snapshot, "a");
  expect(explained.reason).toBe(reason);
  expect(explained.message).toMatch(message);
});
