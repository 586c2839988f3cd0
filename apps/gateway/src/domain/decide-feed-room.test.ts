import { expect, it } from "vitest";
import { decideFeedRoom } from "./decide-feed-room.ts";

it.each([
  ["a list within both limits", 100, [50], "fits"],
  ["a list of a user over the share", 51, [51], "user"],
  ["a list that a user within the share watches too", 80, [51, 20], "fits"],
  ["a list over the limit of all", 101, [50], "all"],
  ["a list over the limit of all, whose user exceeds the share", 101, [60], "user"],
  ["a list without readers", 100, [], "fits"],
])("decides about %s", (_what, totalBytes, readerBytes, expected) => {
  const room = decideFeedRoom({ totalBytes, readerBytes }, 100);
  expect(room.kind === "fits" ? room.kind : room.of).toBe(expected);
});
