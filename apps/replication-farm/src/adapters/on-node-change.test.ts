import { muster } from "@muster/proto";
import { expect, it } from "vitest";
import { onNodeChange } from "./on-node-change.ts";

type Properties = NonNullable<ConstructorParameters<typeof muster.watch.v1.NodeState>[0]>;

const base: Properties = { name: "n", labels: { pool: "a" }, ready: true, schedulable: true };

function fakeView() {
  const states = new Map([["n", new muster.watch.v1.NodeState(base)]]);
  const listeners = new Set<(key: string) => void>();
  return {
    get: (key: string) => {
      const value = states.get(key);
      return value && { key, value, revision: 1 };
    },
    entries: () => [...states].map(([key, value]) => ({ key, value, revision: 1 })),
    onChange: (listener: (key: string) => void) => {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    put: (part: Properties | undefined) => {
      if (part === undefined) states.delete("n");
      else states.set("n", new muster.watch.v1.NodeState({ ...base, ...part }));
      for (const listener of listeners) listener("n");
    },
  };
}

it.each<[string, Properties | undefined, number]>([
  ["a later version of the same", { resourceVersion: 7 }, 0],
  ["another use of the node", { foreign: { pods: 1, requests: { cpu: 1 }, examples: ["a/b"] } }, 0],
  ["another occupant", { occupants: [{ kind: "job", id: "j" }] }, 0],
  ["readiness", { ready: false }, 1],
  ["schedulability", { schedulable: false }, 1],
  ["another label", { labels: { pool: "b" } }, 1],
  ["one more label", { labels: { pool: "a", zone: "z" } }, 1],
  ["another node of the same name", { uid: "other" }, 1],
  ["the end of the node", { deleted: true }, 1],
  ["a state that is removed", undefined, 1],
])("after %s", (_title, part, calls) => {
  const view = fakeView();
  let called = 0;
  const stop = onNodeChange(view, () => (called += 1));
  view.put(part);
  expect(called).toBe(calls);
  view.put(part);
  expect(called).toBe(calls);
  stop();
  view.put({ ready: part?.ready !== true });
  expect(called).toBe(calls);
});

it("calls the listener for each mark that all nodes are known", () => {
  const view = fakeView();
  let called = 0;
  onNodeChange(view, () => (called += 1));
  view.put({ name: "", labels: {} });
  view.put({ name: "", labels: {} });
  expect(called).toBe(2);
});
