import { expect, it } from "vitest";
import { callPauses } from "./call-pauses.ts";
import { aLease } from "../../test/a-lease.ts";

const SECOND_NS = 1_000_000_000n;
const waiting = aLease({ phase: "PROVISIONING", notBeforeNs: 0n });
const open = () => callPauses({ firstMs: 1000, maxMs: 60_000 });
const secondsOf = (pauses: ReturnType<typeof open>, record = waiting): number =>
  Number(pauses.heldBack(record).notBeforeNs / SECOND_NS);

it("asks ever more seldom for what waits, up to the longest pause, and anew where it may be there", () => {
  const pauses = open();
  const seconds = Array.from({ length: 7 }, () => {
    pauses.waits(waiting, 0n);
    return secondsOf(pauses);
  });
  expect(seconds).toEqual([4, 8, 16, 32, 60, 60, 60]);
  pauses.end(waiting.order.id);
  expect(pauses.heldBack(waiting)).toBe(waiting);
  pauses.waits(waiting, 0n);
  expect(secondsOf(pauses)).toBe(4);
});

it("asks once more at once where a grant was heard before it was known to wait", () => {
  const pauses = open();
  pauses.granted(waiting.order.id);
  pauses.waits(waiting, 0n);
  expect(pauses.heldBack(waiting)).toBe(waiting);
  pauses.waits(waiting, 0n);
  expect(secondsOf(pauses)).toBe(4);
  pauses.granted(waiting.order.id);
  expect(pauses.heldBack(waiting)).toBe(waiting);
  pauses.end(waiting.order.id);
  pauses.waits(waiting, 0n);
  expect(secondsOf(pauses)).toBe(4);
});

it("holds nothing back but the run and the phase that waited, nor shortens a pause of the record", () => {
  const pauses = open();
  pauses.waits(waiting, 0n);
  for (const other of [
    { ...waiting, run: 2 },
    { ...waiting, phase: "DECOMMISSIONING" as const },
  ])
    expect(pauses.heldBack(other)).toBe(other);
  expect(secondsOf(pauses, { ...waiting, notBeforeNs: 9n * SECOND_NS })).toBe(9);
});
