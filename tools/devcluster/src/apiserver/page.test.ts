import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { decodePosition, encodePosition, buildPage } from "./page.ts";
import type { Entry } from "./store.ts";

describe("pages", () => {
  it("together contain the whole list, in order, for every size", () => {
    const keys = fc.uniqueArray(fc.stringMatching(/^[a-c]{0,2}\/[a-z-]{1,4}$/));
    fc.assert(
      fc.property(keys, fc.integer({ min: 1, max: 7 }), (names, limit) => {
        const entries: Entry[] = names.sort().map((key) => [key, {}] as const);
        const read: Entry[] = [];
        let after: string | undefined;
        do {
          const page = buildPage(entries, limit, after);
          expect(page.entries.length).toBeLessThanOrEqual(limit);
          read.push(...page.entries);
          expect(page.remaining).toBe(entries.length - read.length);
          after = page.next;
        } while (after !== undefined);
        expect(read).toEqual(entries);
      }),
    );
  });

  it("have one page without a limit", () => {
    const entries: Entry[] = [
      ["/a", {}],
      ["/b", {}],
    ];
    expect(buildPage(entries, 0, undefined)).toEqual({ entries, next: undefined, remaining: 0 });
    expect(buildPage(entries, -1, "/a")).toEqual({ entries: [["/b", {}]], next: undefined, remaining: 0 });
  });
});

describe("continue tokens", () => {
  it("decode to their originals", () => {
    // No list has version 0, so no server issues a token with it.
    const revisions = fc.integer({ min: -1 }).filter((revision) => revision !== 0);
    fc.assert(
      fc.property(revisions, fc.string({ minLength: 1 }), (revision, after) => {
        expect(decodePosition(encodePosition({ revision, after }))).toEqual({ revision, after });
      }),
    );
  });

  it("are refused if they are invalid", () => {
    fc.assert(
      fc.property(fc.string(), (token) => {
        expect(() => decodePosition(token)).toThrow("continue key is not valid");
      }),
    );
  });
});
