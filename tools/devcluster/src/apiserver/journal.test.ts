import { appendFileSync, mkdtempSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { JsonObject } from "./json.ts";
import { type Journal, openJournal } from "./journal.ts";
import { type ObjectStore, makeObjectStore } from "./store.ts";

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "muster-journal-"));
});
afterEach(() => {
  rmSync(directory, { recursive: true, force: true });
});

const raise = (error: unknown): never => {
  throw error;
};
const journalIn = (place: string, compactFromBytes?: number): Journal =>
  openJournal({ directory: place, onProblem: raise, ...(compactFromBytes === undefined ? {} : { compactFromBytes }) });
const storeOn = (journal: Journal): ObjectStore => makeObjectStore({ historyLimit: 50, journal });
const object = (value: string): JsonObject => ({ metadata: { name: "a" }, data: { value } });
const stateOf = (store: ObjectStore): object => ({
  revision: store.revision(),
  things: store.entries("things"),
  others: store.entries("others"),
});

/** Operations of the store across several restarts, with a journal that is compacted sometimes. */
const step = fc.oneof(
  {
    weight: 10,
    arbitrary: fc.record({
      do: fc.constant("write" as const),
      bucket: fc.constantFrom("things", "others"),
      key: fc.constantFrom("a/1", "a/2", "/é\n"),
      value: fc.option(fc.string({ unit: "binary" }), { nil: undefined }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("restart" as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("expire" as const) }) },
);

describe("a store with a journal", () => {
  it("has the same content after each restart, whatever was written and compacted", () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), fc.constantFrom(1, 300, 1_000_000), (steps, compactFromBytes) => {
        const place = mkdtempSync(join(directory, "one-"));
        let journal = journalIn(place, compactFromBytes);
        let store = storeOn(journal);
        for (const one of steps) {
          if (one.do === "write") {
            store.commit(one.bucket, one.key, one.value === undefined ? undefined : object(one.value));
          } else if (one.do === "expire") store.expireHistory();
          else {
            const before = stateOf(store);
            journal[Symbol.dispose]();
            journal = journalIn(place, compactFromBytes);
            store = storeOn(journal);
            expect(stateOf(store)).toEqual(before);
          }
        }
        journal[Symbol.dispose]();
      }),
      { numRuns: 60 },
    );
  });

  it("sends watchers of the life before the events that they have missed, or an error that those are too old", () => {
    const journal = journalIn(directory);
    const store = storeOn(journal);
    const start = store.revision();
    store.commit("things", "a/1", object("one"));
    const seen = store.revision();
    store.commit("things", "a/1", object("two"));
    journal[Symbol.dispose]();

    using again = journalIn(directory);
    const known = storeOn(again);
    expect(known.changesAfter("things", seen)).toMatchObject([{ key: "a/1", before: object("one") }]);
    expect(known.entriesAt("things", seen)).toMatchObject([["a/1", object("one")]]);
    expect(known.changesAfter("things", start)).toHaveLength(2);
    known.expireHistory();
    expect(known.changesAfter("things", seen)).toBeUndefined();
  });

  it("uses no more disk than a few times the size of its objects", () => {
    using journal = journalIn(directory, 10_000);
    const store = storeOn(journal);
    for (let turn = 0; turn < 2_000; turn++) store.commit("things", "a/1", object(`${turn}`));
    expect(statSync(join(directory, "journal")).size).toBeLessThan(11_000);
  });

  it("drops a truncated write at the end, wherever it was truncated", () => {
    const journal = journalIn(directory);
    const store = storeOn(journal);
    store.commit("things", "a/1", object("kept"));
    const before = stateOf(store);
    const file = join(directory, "journal");
    const whole = statSync(file).size;
    store.commit("things", "a/2", object("torn"));
    journal[Symbol.dispose]();
    const bytes = readFileSync(file);
    for (let length = whole; length < bytes.length; length++) {
      writeFileSync(file, bytes.subarray(0, length));
      using cut = journalIn(directory);
      const again = storeOn(cut);
      expect(stateOf(again)).toEqual(before);
      again.commit("things", "a/3", object("next"));
      truncateSync(file, whole);
    }
  });

  it("refuses a file that is damaged in the middle", () => {
    const journal = journalIn(directory);
    storeOn(journal).commit("things", "a/1", object("one"));
    journal[Symbol.dispose]();
    const file = join(directory, "journal");
    const text = readFileSync(file, "utf8");
    writeFileSync(file, text.replace('"one"', '"two"'));
    expect(() => journalIn(directory)).toThrow(/damaged at byte 0/);
    rmSync(file);
    appendFileSync(file, "nothing like a journal\n");
    expect(() => journalIn(directory)).toThrow(/damaged/);
  });
});
