import { FaultError } from "@muster/faults";
import { describe, expect, it } from "vitest";
import { holdRecord, type HeldRecord } from "./hold-record.ts";

/** A record that was written at time 0 and expires after 1000 ms. */
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
  it("starts no work when the record expired before the answer of its write arrived, and releases the record", async () => {
    const { record, released } = written();
    const lost: string[] = [];
    const context = { record, onLost: () => lost.push("lost"), signal: new AbortController().signal, now: () => 1500 };
    const { heldMs } = await holdRecord(context, () => Promise.reject(new Error("work has started")));
    expect({ heldMs, lost, released }).toEqual({ heldMs: 0, lost: ["lost"], released: [7] });
  });

  it("starts no work after the signal, and releases the record", async () => {
    const { record, released } = written();
    const context = { record, onLost: () => undefined, signal: AbortSignal.abort(), now: () => 1 };
    await holdRecord(context, () => Promise.reject(new Error("work has started")));
    expect(released).toEqual([7]);
  });

  it("releases a record that expired while its renewals failed, at its last known revision", async () => {
    const { record, released } = written();
    const failing = { ...record, ttlMs: 60, renew: () => Promise.reject(new TypeError("no answer")) };
    await holdRecord(holding(failing, []), ({ lost }) => ended(lost));
    expect(released).toEqual([7]);
  });

  it("does not release a record that another owner has taken", async () => {
    const { record, released } = written();
    const taken: HeldRecord = { ...record, onTaken: (lose) => (queueMicrotask(() => lose("taken")), () => undefined) };
    await holdRecord(holding(taken, []), ({ lost }) => ended(lost));
    expect(released).toEqual([]);
  });

  it.each([
    ["a fault", new FaultError({ code: "limit_exceeded", what: "bytes of the bucket", limit: 1, retryAfterMs: 1 })],
    ["a defect", new TypeError("a defect")],
  ])("passes %s of the last renewal to onLost", async (_title, error) => {
    const { record } = written();
    const causes: unknown[] = [];
    const failing = { ...record, ttlMs: 60, renew: () => Promise.reject(error) };
    await holdRecord(holding(failing, causes), ({ lost }) => ended(lost));
    expect(causes).toEqual([error]);
  });

  it("passes the conflict to onLost when another owner has taken the record", async () => {
    const { record } = written();
    const causes: unknown[] = [];
    const conflict = new FaultError({ code: "conflict", id: "lock", expectedRevision: 7, actualRevision: 9 });
    const taken = { ...record, ttlMs: 60, renew: () => Promise.reject(conflict) };
    await holdRecord(holding(taken, causes), ({ lost }) => ended(lost));
    expect(causes).toEqual([conflict]);
  });

  it("passes deadline_exceeded to onLost when the record was not renewed in time", async () => {
    const { record } = written();
    const causes: unknown[] = [];
    const frozen = { ...record, ttlMs: 60, renew: () => new Promise<never>(() => undefined) };
    const never = { ...holding(frozen, causes), now: () => 60 };
    await holdRecord(never, () => Promise.reject(new Error("work has started")));
    expect(causes).toMatchObject([{ fault: { code: "deadline_exceeded", timeoutMs: 60 } }]);
  });
});

function holding(record: HeldRecord, causes: unknown[]) {
  const startedMs = performance.now();
  const onLost = (cause: unknown): void => void causes.push(cause);
  return { record, onLost, signal: new AbortController().signal, now: () => performance.now() - startedMs };
}

function ended(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
}
