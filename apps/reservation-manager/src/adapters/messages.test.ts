import { muster } from "@muster/proto";
import fc from "fast-check";
import { expect, it } from "vitest";
import { firstNodes, operations, startRun, step } from "../../test/random-world.ts";
import { emptyLedger, evolve } from "../domain/ledger.ts";
import { entryCodec, snapshotCodec, toNodeFacts, toOwner } from "./messages.ts";

it("brings back every event and every ledger as it was", () => {
  fc.assert(
    fc.property(operations, (steps) => {
      const run = startRun(firstNodes);
      for (const operation of steps) step(run, operation);
      expect(entryCodec.decode(entryCodec.encode(run.events))).toEqual(run.events);
      const restored = snapshotCodec.decode(snapshotCodec.encode(run.world.ledger));
      expect(snapshotCodec.encode(restored)).toEqual(snapshotCodec.encode(run.world.ledger));
      expect([...restored.reservations.values()]).toEqual([...run.world.ledger.reservations.values()]);
    }),
    { numRuns: 30 },
  );
});

it("never hands out the number of a reservation that is gone, not even after a snapshot", () => {
  const run = startRun(firstNodes);
  step(run, {
    do: "reserve",
    request: {
      owner: { kind: "session", id: "x" },
      needs: [{ component: "c", pool: "a" }],
      wait: true,
      priority: 0,
      concurrencyLimit: 0,
      ttlMs: 0,
    },
  });
  step(run, { do: "release", owner: { kind: "session", id: "x" } });
  expect(snapshotCodec.decode(snapshotCodec.encode(run.world.ledger)).nextSequence).toBe(2);
});

it("does not read an entry that it understands only in part", () => {
  const entry = muster.reservation.v1.LedgerEntry.encode({ events: [{ atMs: 1 }] }).finish();
  expect(() => entryCodec.decode(entry)).toThrow("unknown kind");
  const nameless = muster.reservation.v1.LedgerEntry.encode({ events: [{ released: { id: "7" } }] }).finish();
  expect(() => entryCodec.decode(nameless).reduce(evolve, emptyLedger)).toThrow("is not the id of a reservation");
});

it("reads the pool of a node from the label, and a deleted node as none", () => {
  const { NodeState } = muster.watch.v1;
  const state = {
    name: "n",
    labels: { tier: "a" },
    ready: true,
    schedulable: true,
    occupants: [{ kind: "k", id: "i" }],
  };
  expect(toNodeFacts(NodeState.create(state), "tier")).toEqual({
    name: "n",
    pool: "a",
    ready: true,
    schedulable: true,
    occupants: [{ kind: "k", id: "i" }],
  });
  expect(toNodeFacts(NodeState.create(state), "pool")?.pool).toBeUndefined();
  expect(toNodeFacts(NodeState.create({ ...state, deleted: true }), "tier")).toBeUndefined();
  expect(toOwner(undefined)).toEqual({ kind: "", id: "" });
});
