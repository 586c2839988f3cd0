import { expect, it } from "vitest";
import { aSnapshot, aTransfer, placedOn } from "../../test/a-set.ts";
import { explainMissingPod } from "./explain-missing-pod.ts";
import type { SetSnapshot } from "./set-snapshot.ts";

const set = placedOn(["a"]);
const withNodes = (unusable: Readonly<Record<string, string>>): Partial<SetSnapshot> => ({
  nodes: { eligible: new Set(), usable: new Set(), unusable: new Map(Object.entries(unusable)), foreign: new Map() },
});

it.each<[title: string, snapshot: SetSnapshot, reason: string, message: RegExp]>([
  ["its node is gone", aSnapshot(set, [], withNodes({})), "NODE_GONE", /^node a is gone$/],
  ["its node is cordoned", aSnapshot(set, [], withNodes({ a: "it is cordoned" })), "NODE_UNUSABLE", /it is cordoned$/],
  ["the node of a disabled set is gone", aSnapshot({ ...set, disabled: true }, []), "NODE_GONE", /is gone$/],
  ["the watcher is silent", aSnapshot(set, [], { nodes: undefined }), "NO_POD", /watcher is silent/],
  ["the set is disabled", aSnapshot({ ...set, disabled: true }, ["a"]), "NO_POD", /set is disabled/],
  [
    "the transfer of a disabled set needs it",
    aSnapshot({ ...set, disabled: true, transfer: aTransfer("b", "a") }, ["a"]),
    "NO_POD",
    /creates one soon/,
  ],
  [
    "a pod of the pod id belongs to no set",
    aSnapshot(set, [], {
      nodes: { eligible: new Set(), usable: new Set(["a"]), unusable: new Map(), foreign: new Map([["a", "web-9"]]) },
    }),
    "NO_POD",
    /^pod web-9, which belongs to no replica set, runs pod id web there$/,
  ],
  ["the farm creates it next", aSnapshot(set, ["a"]), "NO_POD", /creates one soon/],
])("a placement has no pod because %s", (_title, snapshot, reason, message) => {
  const explained = explainMissingPod(snapshot, "a");
  expect(explained.reason).toBe(reason);
  expect(explained.message).toMatch(message);
});
