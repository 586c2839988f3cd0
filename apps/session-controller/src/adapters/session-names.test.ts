import { expect, it } from "vitest";
import { makeSessionNames } from "./session-names.ts";

/** An index that receives a change when the test triggers it. */
function makeIndex() {
  const keys = new Map<string, number>();
  const listeners: ((name: string) => void)[] = [];
  let newest = 0;
  return {
    entries: () =>
      [...keys].sort(([a], [b]) => (a < b ? -1 : 1)).map(([key, revision]) => ({ key, value: undefined, revision })),
    revision: () => newest,
    onChange: (listener: (name: string) => void) => {
      listeners.push(listener);
      return () => undefined;
    },
    receive: (name: string, revision: number, isDeleted = false) => {
      newest = revision;
      if (isDeleted) keys.delete(name);
      else keys.set(name, revision);
      for (const listener of listeners) listener(name);
    },
  };
}

it("lists a session that this replica has just stored, at its place", () => {
  const index = makeIndex();
  const names = makeSessionNames(index);
  index.receive("a", 1);
  index.receive("c", 2);
  names.add("b", 3);
  expect(names.listAfter("")).toEqual(["a", "b", "c"]);
  expect(names.listAfter("b")).toEqual(["c"]);
  index.receive("b", 3);
  expect(names.listAfter("")).toEqual(["a", "b", "c"]);
});

it("does not list a session whose deletion the index has received", () => {
  const index = makeIndex();
  const names = makeSessionNames(index);
  names.add("before", 1);
  index.receive("before", 1);
  index.receive("before", 2, true);
  // The index was faster than the answer of the store.
  index.receive("late", 3);
  index.receive("late", 4, true);
  names.add("late", 3);
  expect(names.listAfter("")).toEqual([]);
});
