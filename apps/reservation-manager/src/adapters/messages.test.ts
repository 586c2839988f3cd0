import { muster } from "@muster/proto";
import fc from "fast-check";
import { expect, it } from "vitest";
import { startQueueRun, stepQueue } from "../../test/queue-run.ts";
import { queueOperations } from "../../test/random-queues.ts";
import { firstNodes, operations, makeOwner, startRun, stepRun } from "../../test/random-world.ts";
import { emptyLedger, evolveLedger, restoreLedger } from "../domain/ledger/ledger.ts";
import { runToEnd } from "../domain/ledger/steps.ts";
import { makeLargeLedger } from "../../test/large-ledger.ts";
import { entryCodec, scalingCodec, toNodeFacts, toOwner, toScaling } from "./messages.ts";
import { snapshotCodec } from "./snapshot-codec.ts";

it("decodes every event to its original, also from entries that were encoded in parts", () => {
  fc.assert(
    fc.property(operations, (steps) => {
      const run = startRun(firstNodes);
      for (const operation of steps) stepRun(run, operation);
      expect(entryCodec.decode(entryCodec.encode(run.events))).toEqual(run.events);
      const parts = run.events.map((event) => entryCodec.encode([event]));
      expect(entryCodec.join?.(parts)).toEqual(entryCodec.encode(run.events));
    }),
    { numRuns: 30 },
  );
});

it("decodes queues, the queues of requests and their use, from the log and from a snapshot", async () => {
  await fc.assert(
    fc.asyncProperty(queueOperations, async (steps) => {
      const run = startQueueRun();
      for (const operation of steps) stepQueue(run, operation);
      const { ledger } = run.world;
      expect(entryCodec.decode(entryCodec.encode(run.events))).toEqual(run.events);
      const restored = await snapshotCodec.assemble([...snapshotCodec.pieces(ledger)]);
      for (const map of ["queues", "reservations"] as const)
        expect([...restored[map].entries()]).toEqual([...ledger[map].entries()]);
      expect([...restored.admitted.keys()]).toEqual([...ledger.admitted.keys()]);
      for (const map of ["own", "tree"] as const)
        expect([...restored.use[map].entries()]).toEqual([...ledger.use[map].entries()]);
      expect([...restored.queue.byQueue.keys()]).toEqual([...ledger.queue.byQueue.keys()]);
    }),
    { numRuns: 30 },
  );
});

it.each([
  ["UNAVAILABLE", true],
  ["TOO_LARGE", false],
  ["POOL_MAX", false],
  ["", false],
])("reads %j of a pool as a shortage: %s", (blockedCode, exhausted) => {
  const scaling = scalingCodec.decode(scalingCodec.encode(muster.node.v1.PoolScaling.create({ max: 8, blockedCode })));
  expect(toScaling("elastic", scaling)).toEqual({ pool: "elastic", max: 8, exhausted });
});

it("restores needs of two pools whose names differ only by a number", async () => {
  const selection = { terms: [], tolerations: [{ key: "gpu", operator: "Exists" }] };
  const needs = [
    [
      { component: "a", pool: "gpu", selection },
      { component: "b", pool: "gpu1" },
    ],
    [
      { component: "a", pool: "gpu1" },
      { component: "b", pool: "gpu", selection },
    ],
  ];
  const reservations = needs.map((own, index) => {
    return { sequence: index + 1, owner: makeOwner(index), needs: own, priority: 0, createdAtMs: 0 };
  });
  const ledger = runToEnd(restoreLedger(reservations, 3));
  const restored = await snapshotCodec.assemble([...snapshotCodec.pieces(ledger)]);
  expect([...restored.reservations.values()].map((each) => each.needs)).toEqual(needs);
});

it("decodes every ledger to its original, however its snapshot is split", async () => {
  await fc.assert(
    fc.asyncProperty(operations, fc.integer({ min: 1, max: 200 }), async (steps, size) => {
      const run = startRun(firstNodes);
      for (const operation of steps) stepRun(run, operation);
      const { ledger } = run.world;
      const bytes = Buffer.concat([...snapshotCodec.pieces(ledger)]);
      const pieces: Buffer[] = [];
      for (let at = 0; at < bytes.length; at += size) pieces.push(bytes.subarray(at, at + size));
      const restored = await snapshotCodec.assemble(pieces);
      expect(Buffer.concat([...snapshotCodec.pieces(restored)])).toEqual(bytes);
      expect([...restored.reservations.values()]).toEqual([...ledger.reservations.values()]);
      expect(restored.nextSequence).toBe(ledger.nextSequence);
      expect([...restored.limits.entries()]).toEqual([...ledger.limits.entries()]);
      await expect(snapshotCodec.assemble([bytes.subarray(0, -1)])).rejects.toThrow("in the middle");
    }),
    { numRuns: 30 },
  );
});

it("encodes and decodes a large ledger in steps, stores equal needs once, and yields to other work in between", async () => {
  const large = makeLargeLedger(50_000);
  const pieces = [...snapshotCodec.pieces(large)];
  expect(pieces.length).toBeGreaterThanOrEqual(50);
  let turns = 0;
  const other = setInterval(() => (turns += 1), 0);
  const restored = await snapshotCodec.assemble(pieces);
  clearInterval(other);
  expect(turns).toBeGreaterThan(3);
  expect(restored.queue.places.size).toBe(large.queue.places.size);
  const lists = [...restored.reservations.values()].map(({ needs }) => needs);
  expect(lists).toEqual([...large.reservations.values()].map(({ needs }) => needs));
  expect(new Set(lists).size).toBe(new Set(lists.map((needs) => JSON.stringify(needs))).size);
});

it("rejects a snapshot with fields that it does not understand", async () => {
  const [bytes = new Uint8Array()] = snapshotCodec.pieces(emptyLedger);
  await expect(snapshotCodec.assemble([bytes, Uint8Array.from([0x3a, 0])])).rejects.toThrow("unknown tag");
});

it("never reuses the sequence of a released reservation, not even after a snapshot", async () => {
  const run = startRun(firstNodes);
  stepRun(run, {
    kind: "reserve",
    request: {
      owner: { kind: "session", id: "x" },
      needs: [{ component: "c", pool: "a" }],
      wait: true,
      priority: 0,
      concurrencyLimit: 0,
    },
  });
  stepRun(run, { kind: "release", owner: { kind: "session", id: "x" } });
  expect((await snapshotCodec.assemble([...snapshotCodec.pieces(run.world.ledger)])).nextSequence).toBe(2);
});

it("rejects an entry that it understands only in part", () => {
  const entry = muster.reservation.v1.LedgerEntry.encode({ events: [{ atMs: 1 }] }).finish();
  expect(() => entryCodec.decode(entry)).toThrow("unknown kind");
  const nameless = muster.reservation.v1.LedgerEntry.encode({ events: [{ released: { id: "7" } }] }).finish();
  expect(() => entryCodec.decode(nameless).reduce(evolveLedger, emptyLedger)).toThrow("is not the id of a reservation");
});

it("reads the pool of a node from the label, and a deleted node as undefined", () => {
  const { NodeState } = muster.watch.v1;
  const state = {
    name: "n",
    labels: { tier: "a" },
    ready: true,
    schedulable: false,
    cordoned: true,
    occupants: [{ kind: "k", id: "i" }],
  };
  expect(toNodeFacts(NodeState.create(state), "tier")).toEqual({
    name: "n",
    pool: "a",
    ready: true,
    schedulable: false,
    cordoned: true,
    labels: { tier: "a" },
    taints: [],
    occupants: [{ kind: "k", id: "i" }],
    allocatable: undefined,
    foreign: { pods: 0, requests: new Map(), examples: [] },
    ownerUses: [],
  });
  expect(toNodeFacts(NodeState.create(state), "pool")?.pool).toBeUndefined();
  expect(toNodeFacts(NodeState.create({ ...state, deleted: true }), "tier")).toBeUndefined();
  expect(toOwner(undefined)).toEqual({ kind: "", id: "" });
});

it("subtracts the overhead from a node's allocatable amounts, and reads the use of foreign pods and of owners of parts", () => {
  const state = muster.watch.v1.NodeState.create({
    name: "n",
    allocatable: { cpu: 4000, memory: 100, pods: 10 },
    overhead: { pods: 2, requests: { cpu: 300, memory: 10 }, examples: ["kube-system/proxy"] },
    foreign: { pods: 1, requests: { cpu: 500 }, examples: ["web/shop"] },
    shared: [{ owner: { kind: "job", id: "j" }, use: { pods: 1, requests: { cpu: 1000 }, examples: ["default/j-0"] } }],
  });
  expect(toNodeFacts(state, "pool")).toMatchObject({
    allocatable: new Map(Object.entries({ cpu: 3700, memory: 90, pods: 8 })),
    foreign: { pods: 1, requests: new Map([["cpu", 500]]), examples: ["web/shop"] },
    ownerUses: [{ owner: { kind: "job", id: "j" }, use: { pods: 1, requests: new Map([["cpu", 1000]]) } }],
  });
});
