import { describe, expect, it } from "vitest";
import { holdRecord, type HeldRecord } from "./hold-record.ts";

/** A record that was written at time 0 and lasts 1000 ms. */
function written(): { readonly record: HeldRecord; readonly released: number[] } {
  const released: number[] = [];
  const record: HeldRecord = {
    revision: 7,
    sentAtMs: 0,
    ttlMs: 1000,
    renew: (revision) => Promise.resolve(revision + 1),
    find: () => Promise.resolve(undefined),
    giveUp: (revision) => Promise.resolve(released.push(revision)),
    onTaken: () => () => undefined,
  };
  return { record, released };
}

describe("holdRecord", () => {
  it("starts no work when the record expired before the answer of its write arrived", async () => {
    const { record, released } = written();
    const lost: string[] = [];
    const context = { record, onLost: () => lost.push("lost"), signal: new AbortController().signal, now: () => 1500 };
    const { heldMs } = await holdRecord(context, () => Promise.reject(new Error("work has started")));
    expect({ heldMs, lost, released }).toEqual({ heldMs: 0, lost: ["lost"], released: [] });
  });

  it("starts no work after the signal, and releases the record", async () => {
    const { record, released } = written();
    const context = { record, onLost: () => undefined, signal: AbortSignal.abort(), now: () => 1 };
    await holdRecord(context, () => Promise.reject(new Error("work has started")));
    expect(released).toEqual([7]);
  });
});
