import { expect, it } from "vitest";
import { makeCallPauses } from "./call-pauses.ts";
import { makeLeaseRecord } from "../../test/a-lease.ts";

const SECOND_NS = 1_000_000_000n;
const waiting = makeLeaseRecord({ phase: "PROVISIONING", notBeforeNs: 0n });
const open = () => makeCallPauses({ firstMs: 1000, maxMs: 60_000 });
const secondsOf = (pauses: ReturnType<typeof open>, record = waiting): number =>
  Number(pauses.withPause(record).notBeforeNs / SECOND_NS);

it("grows the pauses up to the longest, and starts again after a grant", () => {
  const pauses = open();
  const seconds = Array.from({ length: 7 }, () => {
    pauses.noteWait(waiting, 0n);
    return secondsOf(pauses);
  });
  expect(seconds).toEqual([4, 8, 16, 32, 60, 60, 60]);
  pauses.clear(waiting.order.id);
  expect(pauses.withPause(waiting)).toBe(waiting);
  pauses.noteWait(waiting, 0n);
  expect(secondsOf(pauses)).toBe(4);
});

it("calls again immediately if a grant arrived before the wait was known", () => {
  const pauses = open();
  pauses.noteGrant(waiting.order.id);
  pauses.noteWait(waiting, 0n);
  expect(pauses.withPause(waiting)).toBe(waiting);
  pauses.noteWait(waiting, 0n);
  expect(secondsOf(pauses)).toBe(4);
  pauses.noteGrant(waiting.order.id);
  expect(pauses.withPause(waiting)).toBe(waiting);
  pauses.clear(waiting.order.id);
  pauses.noteWait(waiting, 0n);
  expect(secondsOf(pauses)).toBe(4);
});

it("delays only the run and the phase that waited, and never shortens a pause of the record", () => {
  const pauses = open();
  pauses.noteWait(waiting, 0n);
  for (const other of [
    { ...waiting, run: 2 },
    { ...waiting, phase: "DECOMMISSIONING" as const },
  ])
    expect(pauses.withPause(other)).toBe(other);
  expect(secondsOf(pauses, { ...waiting, notBeforeNs: 9n * SECOND_NS })).toBe(9);
});
