import { runPeriodically } from "@muster/controller";
import { FaultError } from "@muster/faults";
import { DELETING } from "@muster/ledger-client/choose-queue";
import { expect, it } from "vitest";
import type { LedgerQueue } from "../domain/queues/describe-queue.ts";
import { QUEUE_FINALIZER, readQueueRow, type QueueObject, type QueueRow } from "../domain/queues/queue-row.ts";
import { makeQueueReports, REPORT_EVERY_MS, type ReportDeps } from "./report-queues.ts";

const isHeld = (): boolean => true;
type State = LedgerQueue & { readonly queue: { readonly name: string; readonly problem: string } };
type Stored = QueueObject & { readonly metadata: NonNullable<QueueObject["metadata"]> };

const stateOf = (name: string, more: Partial<LedgerQueue> = {}): State => ({
  ...{ used: [], borrowed: [], quota: [], pending: 0, admitted: 0, shareMillionths: 0, problem: "" },
  ...more,
  queue: { name, problem: more.queue?.problem ?? "" },
});

/** Opens queues with a ledger that answers in pages of two, and a cache that lags until `catchUp`. */
function opened(...names: readonly string[]) {
  const objects = new Map<string, Stored>(
    names.map((name) => [name, { metadata: { name, uid: name, resourceVersion: "1", finalizers: [QUEUE_FINALIZER] } }]),
  );
  const rowsNow = () => new Map<string, QueueRow>([...objects].map(([name, object]) => [name, readQueueRow(object)]));
  const world = {
    objects,
    patches: [] as string[],
    states: names.map((name) => stateOf(name)),
    isAway: false,
    elapsedMs: 0,
    rows: rowsNow(),
    catchUp: () => {
      world.rows = rowsNow();
    },
  };
  const deps = {
    queues: { rows: () => world.rows },
    ledger: {
      listQueues: ({ continue: after = "" }: { readonly continue?: string }) => {
        if (world.isAway)
          return Promise.reject(new FaultError({ code: "unavailable", dependency: "l", retryAfterMs: 0 }));
        const left = world.states.filter(({ queue }) => queue.name > after);
        const queues = left.slice(0, 2);
        return Promise.resolve({ queues, continue: left.length > 2 ? (queues.at(-1)?.queue.name ?? "") : "" });
      },
    },
    calls: {
      patch: (_resource: unknown, name: string, { body }: { readonly body: Stored }, options?: object) => {
        const before = objects.get(name);
        if (before === undefined) return Promise.reject(Object.assign(new Error("none"), { code: 404 }));
        world.patches.push(`${name} ${options === undefined ? "finalizers" : "status"}`);
        const resourceVersion = String(Number(before.metadata.resourceVersion) + 1);
        const after = { ...before, ...body, metadata: { ...before.metadata, ...body.metadata, resourceVersion } };
        objects.set(name, after);
        return Promise.resolve(after);
      },
    },
    now: () => 0,
    elapsedMs: () => world.elapsedMs,
  } as unknown as ReportDeps;
  return { ...world, world, round: makeQueueReports(deps) };
}

const reasonOf = ({ objects }: { readonly objects: ReadonlyMap<string, Stored> }, name: string): unknown =>
  (objects.get(name)?.status as { readonly reason?: string } | undefined)?.reason;

it("writes the status of every queue once, and again only if it differs", async () => {
  const { world, round } = opened("a", "b", "c", "d", "e");
  await round(isHeld);
  expect(world.patches).toHaveLength(5);
  // The cache lags, so the own write counts.
  await round(isHeld);
  world.catchUp();
  await round(isHeld);
  expect(world.patches).toHaveLength(5);
  world.states = world.states.map((state) => (state.queue.name === "d" ? stateOf("d", { pending: 2 }) : state));
  await round(isHeld);
  expect(world.patches.slice(5)).toEqual(["d status"]);
  expect(world.objects.get("d")?.status).toMatchObject({ pending: 2, reason: "ADMITTING" });
});

it("writes the status of a queue at most once a second, which is never older than a few seconds", async () => {
  const { world, round } = opened("a");
  const stop = new AbortController();
  const writtenAtMs: number[] = [];
  let nowMs = 0;
  const work = async (): Promise<void> => {
    world.states = [stateOf("a", { pending: nowMs })];
    const before = world.patches.length;
    await round(isHeld);
    writtenAtMs.push(...world.patches.slice(before).map(() => nowMs));
  };
  const rest = (ms: number): Promise<void> => {
    nowMs += ms;
    if (nowMs > 20_000) stop.abort();
    return Promise.resolve();
  };
  await runPeriodically({ name: "tested", work, everyMs: REPORT_EVERY_MS, rest, stop: stop.signal });
  const pausesMs = writtenAtMs.slice(1).map((atMs, index) => atMs - (writtenAtMs[index] ?? 0));
  expect(Math.min(...pausesMs)).toBeGreaterThanOrEqual(1000);
  expect(Math.max(...pausesMs)).toBeLessThanOrEqual(3000);
});

it("sends no request without a queue, and writes nothing without the lead", async () => {
  const { world, round } = opened();
  world.isAway = true;
  await round(isHeld);
  const other = opened("a");
  await other.round(() => false);
  expect([...world.patches, ...other.world.patches]).toEqual([]);
});

it("states after ten seconds without an answer that the ledger is silent, whatever it did before", async () => {
  const { world, round } = opened("a");
  world.elapsedMs = 1_000_000;
  world.isAway = true;
  await round(isHeld);
  expect(world.patches).toEqual([]);
  world.elapsedMs += 10_000;
  await round(isHeld);
  expect(reasonOf(world, "a")).toBe("LEDGER_AWAY");
  world.isAway = false;
  await round(isHeld);
  expect(reasonOf(world, "a")).toBe("ADMITTING");
});

it("removes the finalizer of a queue that is being deleted once it is empty, and keeps foreign ones", async () => {
  const { world, round } = opened("a");
  const metadata = { ...world.objects.get("a")?.metadata, deletionTimestamp: "2026-01-01T00:00:00Z" };
  world.objects.set("a", { metadata: { ...metadata, finalizers: ["other", QUEUE_FINALIZER] } });
  world.catchUp();
  world.states = [stateOf("a", { queue: { problem: DELETING }, admitted: 1 })];
  await round(isHeld);
  expect(world.objects.get("a")?.metadata.finalizers).toEqual(["other", QUEUE_FINALIZER]);
  expect(world.objects.get("a")?.status).toMatchObject({
    conditions: [{}, { type: "DeletionBlocked", reason: "HAS_WORK" }],
  });
  // The bucket of the ledger was lost.
  world.states = [];
  await round(isHeld);
  expect(world.objects.get("a")?.metadata.finalizers).toEqual(["other", QUEUE_FINALIZER]);
  world.states = [stateOf("a", { queue: { problem: DELETING } })];
  await round(isHeld);
  expect(world.objects.get("a")?.metadata.finalizers).toEqual(["other"]);
});

it("treats a queue that disappears meanwhile as deleted, and reports the others", async () => {
  const { world, round } = opened("a", "b");
  world.objects.delete("a");
  await round(isHeld);
  expect(world.patches).toEqual(["b status"]);
});
