import { muster } from "@muster/proto";
import { DELETING } from "@muster/ledger-client/choose-queue";
import { expect, it } from "vitest";
import { QUEUE_FINALIZER, readQueueRow, type QueueObject, type QueueRow } from "../domain/queues/queue-row.ts";
import { mirrorQueues, queueCodec, type MirrorDeps, type QueueBucket } from "./mirror-queues.ts";

const { Queue } = muster.reservation.v1;
const missing = Object.assign(new Error("none"), { code: 404 });
const conflict = Object.assign(new Error("changed"), { code: 409 });
const isHeld = (): boolean => true;

/** Opens a cluster and a bucket in memory. `calls` lists the writes of both. */
function opened(live: readonly string[], entries: Readonly<Record<string, Uint8Array>> = {}) {
  const objects = new Map<string, QueueObject>(
    live.map((name) => [name, { metadata: { name, uid: name, resourceVersion: "1" }, spec: { weight: 2 } }]),
  );
  const stored = new Map(Object.entries(entries));
  const calls: string[] = [];
  let cached: ReadonlyMap<string, QueueRow> | undefined;
  const bucket: QueueBucket = {
    list: () =>
      Promise.resolve([...stored].map(([key, bytes]) => ({ key, value: queueCodec.decode(bytes), revision: 5 }))),
    create: (key, value) => write("create", key, queueCodec.encode(value)),
    update: (key, value, revision) => write(`update ${revision}`, key, queueCodec.encode(value)),
    delete: async (key, revision) => {
      await write(`delete ${revision}`, key, undefined);
    },
  };
  const write = (doing: string, key: string, bytes: Uint8Array | undefined): Promise<number> => {
    calls.push(`${doing} ${key}`);
    if (bytes === undefined) stored.delete(key);
    else stored.set(key, bytes);
    return Promise.resolve(6);
  };
  const deps = {
    queues: {
      rows: () => cached ?? new Map([...objects].map(([name, object]) => [name, readQueueRow(object)])),
    },
    openBucket: () => Promise.resolve(bucket),
    calls: {
      get: (_resource: unknown, name: string) => {
        const object = objects.get(name);
        return object === undefined ? Promise.reject(missing) : Promise.resolve(object);
      },
      patch: (_resource: unknown, name: string, { body }: { readonly body: QueueObject }) => {
        calls.push(`patch ${name}`);
        if (name === "busy") return Promise.reject(conflict);
        const before = objects.get(name);
        objects.set(name, { ...before, metadata: { ...before?.metadata, ...body.metadata } });
        return Promise.resolve(objects.get(name));
      },
    },
  } as unknown as MirrorDeps;
  return { objects, stored, calls, deps, show: (rows: typeof cached) => (cached = rows) };
}

const problemOf = (bytes: Uint8Array | undefined): string | undefined => bytes && Queue.decode(bytes).problem;

it("gives each queue its finalizer, then its entry, and writes nothing after that", async () => {
  const world = opened(["a"]);
  await mirrorQueues(world.deps, isHeld);
  expect(world.calls).toEqual(["patch a", "create a"]);
  expect(world.objects.get("a")?.metadata?.finalizers).toEqual([QUEUE_FINALIZER]);
  expect(Queue.decode(world.stored.get("a") ?? new Uint8Array())).toMatchObject({ name: "a", weightMilli: 2000 });
  await mirrorQueues(world.deps, isHeld);
  expect(world.calls).toHaveLength(2);
});

it("repairs entries that were changed, cannot be decoded, or belong to no queue", async () => {
  const world = opened(["a", "b"], {
    a: Queue.encode({ name: "a", weightMilli: 1 }).finish(),
    b: new Uint8Array([255, 255]),
    c: Queue.encode({ name: "c" }).finish(),
  });
  await mirrorQueues(world.deps, isHeld);
  expect(world.calls.filter((each) => !each.startsWith("patch"))).toEqual(["update 5 a", "update 5 b", "delete 5 c"]);
  world.stored.clear();
  await mirrorQueues(world.deps, isHeld);
  expect([...world.stored.keys()]).toEqual(["a", "b"]);
});

it("keeps the entry of a queue that only the cache lacks", async () => {
  const world = opened(["a"], { a: Queue.encode({ name: "a" }).finish() });
  world.show(new Map());
  await mirrorQueues(world.deps, isHeld);
  expect(world.calls).toEqual([]);
});

it("writes nothing while the queues are not listed, or without the lead", async () => {
  const world = opened(["a"]);
  await mirrorQueues({ ...world.deps, queues: { rows: () => undefined } }, isHeld);
  await mirrorQueues(world.deps, () => false);
  expect(world.calls).toEqual([]);
  let held = 2;
  await expect(mirrorQueues(world.deps, () => held-- > 0)).rejects.toMatchObject({ name: "AbortError" });
  expect(world.calls).toEqual(["patch a"]);
});

it("mirrors the other queues if the finalizer of one is refused, delays its entry, and rejects", async () => {
  const world = opened(["a", "busy"]);
  await expect(mirrorQueues(world.deps, isHeld)).rejects.toBe(conflict);
  expect([...world.stored.keys()]).toEqual(["a"]);
});

it("makes the ledger admit nothing to a queue that is being deleted", async () => {
  const world = opened(["a"]);
  await mirrorQueues(world.deps, isHeld);
  const before = world.objects.get("a");
  world.objects.set("a", { ...before, metadata: { ...before?.metadata, deletionTimestamp: "2026-01-01T00:00:00Z" } });
  await mirrorQueues(world.deps, isHeld);
  expect(problemOf(world.stored.get("a"))).toBe(DELETING);
  world.objects.delete("a");
  await mirrorQueues(world.deps, isHeld);
  expect(world.stored.size).toBe(0);
});
