import { expect, it } from "vitest";
import { failedTokens } from "./failed-tokens.ts";

const RATE = { perSecond: 0.5, burst: 2 };

function clocked() {
  const clock = { nowMs: 0 };
  const tokens = failedTokens(RATE, () => clock.nowMs);
  const fail = (address: string, token: string) => tokens.record(address, token, false);
  return { clock, tokens, fail };
}

it("refuses an address after a burst of unknown tokens, until there is room for one", () => {
  const { clock, tokens, fail } = clocked();
  for (const token of ["a", "b"]) {
    expect(tokens.refusal("10.0.0.1", token)).toBeUndefined();
    fail("10.0.0.1", token);
  }
  expect(tokens.refusal("10.0.0.1", "c")).toMatchObject({ retryAfterMs: 2000, reportRefused: 1 });
  expect(tokens.refusal("10.0.0.1", "d")).toMatchObject({ reportRefused: undefined });
  expect(tokens.refusal("10.0.0.2", "c")).toBeUndefined();
  clock.nowMs = 2000;
  expect(tokens.refusal("10.0.0.1", "c")).toBeUndefined();
});

it("costs known tokens nothing, and looks at them although others behind the address send unknown ones", () => {
  const { tokens, fail } = clocked();
  for (let request = 0; request < 10; request += 1) tokens.record("10.0.0.1", "good", true);
  for (const token of ["a", "b"]) fail("10.0.0.1", token);
  expect(tokens.refusal("10.0.0.1", "good")).toBeUndefined();
  expect(tokens.refusal("10.0.0.1", "new")).toBeDefined();
});

it("counts a known token that has expired", () => {
  const { tokens, fail } = clocked();
  tokens.record("10.0.0.1", "good", true);
  for (const token of ["good", "good"]) fail("10.0.0.1", token);
  expect(tokens.refusal("10.0.0.1", "good")).toBeDefined();
});

it("lets addresses beyond the limit share one rate", () => {
  const { tokens, fail } = clocked();
  for (let address = 0; address < 10_000; address += 1) fail(`10.0.0.${address}`, "a");
  for (const address of ["new-1", "new-2"]) {
    expect(tokens.refusal(address, "a")).toBeUndefined();
    fail(address, "a");
  }
  expect(tokens.refusal("new-3", "a")).toBeDefined();
  expect(tokens.refusal("10.0.0.1", "a")).toBeUndefined();
});
