import { expect, it } from "vitest";
import { decideRepeat, isFinal } from "./decide-repeat.ts";

const KEPT = { digest: "a", requestId: "r-1" };
const answer = { status: 200, body: "{}" };

it.each([
  ["another request, also before the answer", KEPT, "b", { kind: "differs" }],
  ["another request after the answer", { ...KEPT, answer }, "b", { kind: "differs" }],
  ["the same request after the answer", { ...KEPT, answer }, "a", { kind: "answered", answer }],
  ["the same request before the answer", KEPT, "a", { kind: "unanswered", requestId: "r-1" }],
] as const)("decides about %s", (_, kept, digest, repeat) => {
  expect(decideRepeat(kept, digest)).toEqual(repeat);
});

it.each([
  [{ status: 200 }, true],
  [{ status: 400 }, false],
  [{ status: 409 }, true],
  [{ status: 422 }, true],
  [{ status: 429, retryAfterMs: 1000 }, false],
  [{ status: 500 }, false],
  [{ status: 503, retryAfterMs: 1000 }, false],
  [{ status: 504, retryAfterMs: 1000 }, false],
])("keeps the answer of %j: %s", (outcome, isKept) => {
  expect(isFinal(outcome)).toBe(isKept);
});
