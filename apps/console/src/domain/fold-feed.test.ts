import fc from "fast-check";
import { expect, it } from "vitest";
import { emptyFeed, foldFeed, type FeedEvent, type FeedState } from "./fold-feed.ts";

const put = (key: string, item = 1): FeedEvent<number> => ({ kind: "put", key, item });
const [reset, synced, opened] = [{ kind: "reset" }, { kind: "synced" }, { kind: "opened" }] as const;
const stale = { kind: "stale", detail: "NATS is away" } as const;
const list = [reset, put("a"), put("b"), synced] as const;
const shown = ({ items, status }: FeedState<number>) =>
  `${status} ${[...items].map((each) => each.join("=")).join(" ")}`;

it.each<[title: string, events: readonly FeedEvent<number>[], state: string]>([
  ["shows nothing before the list is complete", [reset, put("a")], "loading "],
  ["shows the whole list", list, "live a=1 b=1"],
  ["shows changes", [...list, put("a", 2), { kind: "deleted", key: "b" }, put("c")], "live a=2 c=1"],
  ["keeps its items while the list is received again", [...list, reset, put("a", 3)], "live a=1 b=1"],
  ["drops items that the new list lacks", [...list, reset, put("a", 3), synced], "live a=3"],
  ["shows that it is stale", [...list, stale], "stale a=1 b=1"],
  ["is live again once the service answers", [...list, stale, synced], "live a=1 b=1"],
  [
    "is live again once it is connected, because the gateway sends missed events",
    [...list, stale, opened],
    "live a=1 b=1",
  ],
  ["is not live before its first list", [stale, opened], "loading "],
  ["shows a refusal", [{ kind: "refused", status: "forbidden", detail: "no right" }], "forbidden "],
])("%s", (_, events, state) => {
  expect(shown(foldFeed(emptyFeed(), events))).toBe(state);
});

it("does not depend on how events are batched", () => {
  const event = fc.oneof(
    fc.constantFrom<FeedEvent<number>>(reset, synced, opened, stale),
    fc.record({ kind: fc.constant("put" as const), key: fc.constantFrom("a", "b", "c"), item: fc.nat(9) }),
    fc.record({ kind: fc.constant("deleted" as const), key: fc.constantFrom("a", "b", "c") }),
  );
  fc.assert(
    fc.property(fc.array(event), fc.nat(20), (events, cut) => {
      const whole = foldFeed(emptyFeed<number>(), events);
      const parts = foldFeed(foldFeed(emptyFeed<number>(), events.slice(0, cut)), events.slice(cut));
      expect(parts).toEqual(whole);
    }),
  );
});

it("does not change the previous state", () => {
  const before = foldFeed(emptyFeed<number>(), list);
  foldFeed(before, [put("c"), { kind: "deleted", key: "a" }]);
  expect(shown(before)).toBe("live a=1 b=1");
});
