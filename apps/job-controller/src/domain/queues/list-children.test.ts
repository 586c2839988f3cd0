import { expect, it } from "vitest";
import { listChildren } from "./list-children.ts";

const rows = (...of: readonly (readonly [name: string, parent: string, isDeleting?: boolean])[]) =>
  new Map(of.map(([name, parent, isDeleting = false]) => [name, { name, isDeleting, record: { parent } }]));

it.each<[title: string, given: ReturnType<typeof rows>, children: Record<string, readonly string[]>]>([
  ["of a tree", rows(["a", ""], ["b", "a"], ["c", "a"], ["d", "c"]), { a: ["b", "c"], c: ["d"] }],
  ["that is being deleted, which waits for the queues below it", rows(["a", "", true], ["b", "a", true]), { a: ["b"] }],
  ["whose parent does not exist", rows(["b", "gone"]), { gone: ["b"] }],
  ["of a cycle", rows(["a", "b"], ["b", "a"]), { a: ["b"], b: ["a"] }],
  [
    "of a cycle that is being deleted, so that no queue waits for another",
    rows(["a", "b", true], ["b", "a", true]),
    {},
  ],
  ["of a cycle with one queue that is being deleted", rows(["a", "b", true], ["b", "a"]), { a: ["b"] }],
  ["below itself, while it is being deleted", rows(["a", "a", true]), {}],
  ["below a cycle, which keep it", rows(["a", "b", true], ["b", "a", true], ["c", "b", true]), { b: ["c"] }],
])("lists the queues %s", (_, given, children) => {
  expect(Object.fromEntries(listChildren(given))).toEqual(children);
});
