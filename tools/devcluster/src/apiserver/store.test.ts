import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { JsonObject } from "./json.ts";
import { type Entry, makeObjectStore } from "./store.ts";
import { decideEvent } from "./watch-events.ts";

type Write = { readonly key: string; readonly label: string | undefined };
const write: fc.Arbitrary<Write> = fc.record({
  key: fc.constantFrom("a/1", "a/2", "b/1", "/x"),
  label: fc.option(fc.constantFrom("in", "out"), { nil: undefined }),
});
const writes = fc.array(write, { maxLength: 40 });
const object = (label: string): JsonObject => ({ metadata: { labels: { label } } });
const isIn = (one: JsonObject): boolean => JSON.stringify(one).includes('"in"');

describe("the store", () => {
  it("can show every state that its history reaches", () => {
    fc.assert(
      fc.property(writes, (steps) => {
        const store = makeObjectStore({ historyLimit: 100 });
        const states: { revision: number; entries: readonly Entry[] }[] = [];
        for (const { key, label } of steps) {
          store.commit("things", key, label === undefined ? undefined : object(label));
          states.push({ revision: store.revision(), entries: store.entries("things") });
        }
        for (const { revision, entries } of states) expect(store.entriesAt("things", revision)).toEqual(entries);
      }),
    );
  });

  it("reports to a watcher with a selector exactly the objects that start and stop matching, from any revision on", () => {
    fc.assert(
      fc.property(writes, fc.nat(40), (steps, start) => {
        const store = makeObjectStore({ historyLimit: 100 });
        let since = store.revision();
        let seen = new Map<string, JsonObject>();
        for (const [index, { key, label }] of steps.entries()) {
          if (index === start) {
            since = store.revision();
            seen = new Map(store.entries("things").filter(([, one]) => isIn(one)));
          }
          store.commit("things", key, label === undefined ? undefined : object(label));
        }
        if (start >= steps.length) return;
        for (const change of store.changesAfter("things", since) ?? []) {
          const event = decideEvent(change, isIn);
          if (event === undefined) continue;
          // Each kind of event implies whether the object existed before.
          expect(seen.has(change.key)).toBe(event.type !== "ADDED");
          if (event.type === "DELETED") seen.delete(change.key);
          else seen.set(change.key, event.object);
        }
        expect([...seen].sort(([a], [b]) => (a < b ? -1 : 1))).toEqual(
          store.entries("things").filter(([, one]) => isIn(one)),
        );
      }),
    );
  });

  it("drops the oldest changes, and returns undefined for revisions before them", () => {
    const store = makeObjectStore({ historyLimit: 5 });
    const first = store.revision();
    for (let index = 0; index < 20; index++) store.commit("things", `a/${index}`, object("in"));
    expect(store.changesAfter("things", first)).toBeUndefined();
    expect(store.entriesAt("things", first)).toBeUndefined();
    expect(store.changesAfter("things", store.revision() - 5)).toHaveLength(5);
    expect(store.changesAfter("others", first)).toEqual([]);
  });

  it("drops all history on request, also for later buckets", () => {
    const store = makeObjectStore({ historyLimit: 5 });
    store.commit("things", "a/1", object("in"));
    const before = store.revision();
    store.expireHistory();
    expect(store.changesAfter("things", before)).toBeUndefined();
    expect(store.changesAfter("new", before)).toBeUndefined();
    expect(store.changesAfter("things", store.revision())).toEqual([]);
  });

  it("gives every write its own revision, over all buckets", () => {
    const store = makeObjectStore({ historyLimit: 5 });
    const revisions = ["a", "b", "a"].map((bucket) => store.commit(bucket, "a/1", object("in")).revision);
    expect(new Set(revisions).size).toBe(3);
    expect(revisions).toEqual(revisions.toSorted((a, b) => a - b));
  });
});
