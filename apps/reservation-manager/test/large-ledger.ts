import type { NatsBus } from "@muster/bus";
import { buckets, streams } from "@muster/proto";
import { openBucket, openLog, type Log } from "@muster/store";
import { until } from "@muster/testkit";
import { entryCodec } from "../src/adapters/messages.ts";
import { snapshotCodec } from "../src/adapters/snapshot-codec.ts";
import {
  emptyLedger,
  evolveLedger,
  restoreLedger,
  type Ledger,
  type LedgerEvent,
} from "../src/domain/ledger/ledger.ts";
import { runToEnd } from "../src/domain/ledger/steps.ts";
import { makeNeeds, makeOwner } from "./random-world.ts";

const POOLS = 20;

/** Builds a ledger of waiting requests for 1 to 8 machines in up to 3 pools, with 3 priorities. */
export function makeLargeLedger(waiting: number): Ledger {
  const reservations = Array.from({ length: waiting }, (_, index) => {
    const pools = Array.from(
      { length: 1 + ((index * 7) % 8) },
      (__, need) => `pool-${(index * 13 + (need % 3)) % POOLS}`,
    );
    const needs = makeNeeds(...pools);
    return {
      sequence: index + 1,
      owner: makeOwner(index),
      needs,
      priority: index % 3,
      createdAtMs: index,
    };
  });
  return runToEnd(restoreLedger(reservations, waiting + 1));
}

/** Writes the ledger to NATS as a leader would: a snapshot, and a log that continues from it. */
export async function writeLedger(bus: NatsBus, ledger: Ledger): Promise<void> {
  await using log = await openLedgerLog(bus, ledger, 1);
  const reservation = {
    sequence: ledger.nextSequence,
    owner: makeOwner("last"),
    needs: makeNeeds("pool-0"),
    priority: 0,
  };
  const requested = { ...reservation, createdAtMs: 0 };
  await log.transact(() => ({ events: [{ kind: "requested", reservation: requested, atMs: 0 }], result: undefined }));
  await until("the snapshot is written", async () => (await readSnapshotRevision(bus)) > 0, { timeoutMs: 120_000 });
}

/** Writes a log of this many entries without reservations, and no snapshot. */
export async function writeEntries(bus: NatsBus, entries: number): Promise<void> {
  await using log = await openLedgerLog(bus, emptyLedger, Number.POSITIVE_INFINITY);
  const limited = (limit: number) => ({ kind: "limited", ownerKind: "unused", limit, atMs: 0 }) as const;
  for (let entry = 0; entry < entries; entry += 1)
    await log.transact(() => ({ events: [limited(1 + (entry % 2))], result: undefined }));
}

function openLedgerLog(bus: NatsBus, initial: Ledger, everyEntries: number): Promise<Log<Ledger, LedgerEvent>> {
  return openLog(bus.connection, {
    stream: { name: streams.ledger.name, subject: streams.ledger.subjects[0] },
    events: entryCodec,
    snapshots: { bucket: buckets.snapshots, key: "reservation", codec: snapshotCodec, everyEntries },
    initial,
    evolve: evolveLedger,
    token: 0,
  });
}

/** The revision of the snapshot, which changes with every snapshot. */
export async function readSnapshotRevision(bus: NatsBus): Promise<number> {
  const bytes = { encode: (value: Uint8Array) => value, decode: (value: Uint8Array) => value };
  const bucket = await openBucket(bus.connection, { name: buckets.snapshots, codec: bytes });
  return (await bucket.get("reservation"))?.revision ?? 0;
}
