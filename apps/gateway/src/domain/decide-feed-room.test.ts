import { expect, it } from "vitest";
import { decideFeedRoom } from "./decide-feed-room.ts";

it.each([
  ["a list at both limits", 100, [66], "fits"],
  ["a list of a user over the share", 67, [67], "user"],
  ["a list that a user within the share watches too", 87, [67, 20], "fits"],
  ["a list over the limit of all", 101, [50], "all"],
  ["a list over the limit of all, whose user exceeds the share", 101, [70], "user"],
  ["a list without readers", 100, [], "fits"],
])("decides about %s", (_what, totalBytes, readerBytes, expected) => {
  const room = decideFeedRoom({ totalBytes, readerBytes }, 100);
  expect(room.kind === "fits" ? room.kind : room.of).toBe(expected);
});
