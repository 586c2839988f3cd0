import fc from "fast-check";
import { expect, it } from "vitest";
import { fillPage, computePageLimit } from "./fill-page.ts";

/** Fills a page with items of these message sizes; 0 is an item without a message. */
function fill(sizes: readonly number[], limit: number, bytes: number) {
  return fillPage(
    sizes.map((size, index) => ({ size, index })),
    ({ size }) => (size === 0 ? undefined : size),
    { limit, bytes, encode: (size) => new Uint8Array(size) },
  );
}

type Case = {
  what: string;
  sizes: number[];
  limit: number;
  bytes: number;
  messages: number[];
  last: number | undefined;
};

it.each<Case>([
  { what: "nothing", sizes: [], limit: 5, bytes: 100, messages: [], last: undefined },
  { what: "all that there is", sizes: [10, 10], limit: 5, bytes: 100, messages: [10, 10], last: 1 },
  { what: "no more than the limit", sizes: [10, 10, 10], limit: 2, bytes: 100, messages: [10, 10], last: 1 },
  {
    what: "no more than the bytes, frames included",
    sizes: [44, 44, 44],
    limit: 5,
    bytes: 100,
    messages: [44, 44],
    last: 1,
  },
  {
    what: "one message that alone is larger than a page",
    sizes: [500, 10],
    limit: 5,
    bytes: 100,
    messages: [500],
    last: 0,
  },
  {
    what: "nothing with a message that is too large after others",
    sizes: [10, 500],
    limit: 5,
    bytes: 100,
    messages: [10],
    last: 0,
  },
  { what: "no item that is gone, which it covers", sizes: [10, 0, 0], limit: 3, bytes: 100, messages: [10], last: 2 },
])("a page has $what", ({ sizes, limit, bytes, messages, last }) => {
  const page = fill(sizes, limit, bytes);
  expect(page.messages).toEqual(messages);
  expect(page.last?.index).toBe(last);
  expect(page.isMore).toBe((last ?? -1) < sizes.length - 1);
});

it("page after page covers every item once, in order", () => {
  const inputs = [fc.array(fc.nat(300)), fc.integer({ min: 1, max: 9 }), fc.nat(400)] as const;
  fc.assert(
    fc.property(...inputs, (sizes, limit, bytes) => {
      const seen: number[] = [];
      let from = 0;
      for (let isMore = true; isMore;) {
        const page = fill(sizes.slice(from), limit, bytes);
        seen.push(...page.messages);
        from += (page.last?.index ?? -1) + 1;
        isMore = page.isMore;
      }
      expect(seen).toEqual(sizes.filter((size) => size > 0));
    }),
  );
});

it.each([
  [0, 500],
  [3, 3],
  [501, 500],
])("a request for %d items gets a page of at most %d", (requested, limit) => {
  expect(computePageLimit(requested, 500)).toBe(limit);
});
