import { pause } from "@muster/backoff";
import { expect, it } from "vitest";
import { runParts } from "./run-parts.ts";

const NEVER_MS = 1_000_000;

it("ends the lead of every part when one fails, and rejects with the first failure after all have ended", async () => {
  const lead = { signal: new AbortController().signal, lost: new AbortController().signal, isHeld: () => true };
  const ended: string[] = [];
  const running = runParts(lead, [
    async ({ signal, lost, isHeld }) => {
      await pause(NEVER_MS, signal);
      expect(lost.aborted).toBe(true);
      ended.push(`slow, held: ${String(isHeld())}`);
      throw new Error("a consequence");
    },
    async () => {
      await Promise.resolve();
      throw new Error("the cause");
    },
  ]);
  await expect(running).rejects.toThrow("the cause");
  expect(ended).toEqual(["slow, held: false"]);
  expect(lead.isHeld()).toBe(true);
});

it("ends with the lead, and resolves when all parts have returned", async () => {
  const lost = new AbortController();
  const running = runParts({ signal: lost.signal, lost: lost.signal, isHeld: () => !lost.signal.aborted }, [
    ({ signal }) => pause(NEVER_MS, signal),
    () => Promise.resolve(),
  ]);
  lost.abort();
  await expect(running).resolves.toBeUndefined();
});

it("does not take a stop for the loss of the lead", async () => {
  const stop = new AbortController();
  const lead = { signal: stop.signal, lost: new AbortController().signal, isHeld: () => true };
  await runParts(lead, [
    async ({ signal, lost }) => {
      stop.abort();
      await pause(NEVER_MS, signal);
      expect(lost.aborted).toBe(false);
    },
  ]);
});
