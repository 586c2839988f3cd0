import { makeModify, type Bucket, type Change, type Codec, type Entry, type WatchOptions } from "@muster/store";
import { throwFault } from "@muster/faults";
import type { Network } from "./network.ts";
import type { Process } from "./task-queue.ts";
import type { VirtualTime } from "./virtual-time.ts";

type Kept = { readonly bytes: Uint8Array; readonly revision: number };
type KeyChange = { readonly key: string; readonly kept: Kept | undefined; readonly revision: number };

/** The content of a bucket, as bytes: each reader decodes them with its own codec. */
export type BucketWorld = {
  readonly name: string;
  readonly entries: Map<string, Kept>;
  revision: number;
  readonly watches: Set<Watch>;
  /** Called for each write, before any watch is notified. */
  readonly onWrite: ((key: string, before: Uint8Array | undefined, after: Uint8Array | undefined) => void)[];
};

/** A watch of one process. Changes arrive in order, each with a random lag. */
type Watch = {
  readonly process: Process;
  readonly notify: (change: KeyChange) => void;
  readonly start: () => void;
  interrupted: boolean;
};

const HEARTBEAT_MS = 2000;

export function makeBucketWorld(name: string): BucketWorld {
  return { name, entries: new Map(), revision: 0, watches: new Set(), onWrite: [] };
}

export type SimConnection = { readonly time: VirtualTime; readonly network: Network };

/** The bucket, accessed over the network by the calling process. */
export function makeSimBucket<Value, Input = Value>(
  world: BucketWorld,
  codec: Codec<Value, Input>,
  { network, time }: SimConnection,
): Bucket<Value, Input> {
  const call = <Result>(name: string, effect: () => Result): Promise<Result> =>
    network.call("nats", `${world.name} ${name}`, effect);
  const put = (key: string, bytes: Uint8Array, expected: number | undefined): number => {
    expect(world, key, expected);
    return writeKey(world, key, bytes);
  };
  const entry = (key: string, { bytes, revision }: Kept): Entry<Value> => ({
    key,
    value: codec.decode(bytes),
    revision,
  });
  const single: Pick<Bucket<Value, Input>, "get" | "create" | "update" | "delete"> = {
    get: async (key) => {
      const kept = await call(`get ${key}`, () => world.entries.get(key));
      return kept === undefined ? undefined : entry(key, kept);
    },
    create: (key, value) => {
      const bytes = codec.encode(value);
      return call(`create ${key}`, () => put(key, bytes, undefined));
    },
    update: (key, value, expected) => {
      const bytes = codec.encode(value);
      return call(`update ${key} at ${expected}`, () => put(key, bytes, expected));
    },
    delete: (key, expected) =>
      call(`delete ${key} at ${expected}`, () => {
        expect(world, key, expected);
        writeKey(world, key, undefined);
      }),
  };
  return {
    name: world.name,
    ...single,
    modify: makeModify(single),
    list: async () => {
      const all = await call("list", () => [...world.entries]);
      return all.map(([key, kept]) => entry(key, kept));
    },
    watch: (options) => watch(world, time, network, options, entry),
  };
}

function expect(world: BucketWorld, key: string, expected: number | undefined): void {
  const actual = world.entries.get(key)?.revision;
  if (actual === expected) return;
  throwFault(
    expected === undefined
      ? { code: "already_exists", kind: "key", id: key }
      : { code: "conflict", id: key, expectedRevision: expected, actualRevision: actual ?? 0 },
  );
}

/** Writes without a network, for writers that the simulation does not run. Undefined deletes the key. */
export function writeKey(world: BucketWorld, key: string, bytes: Uint8Array | undefined): number {
  const before = world.entries.get(key)?.bytes;
  const revision = (world.revision += 1);
  const kept = bytes === undefined ? undefined : { bytes, revision };
  if (kept === undefined) world.entries.delete(key);
  else world.entries.set(key, kept);
  for (const listener of world.onWrite) listener(key, before, bytes);
  for (const each of world.watches) each.notify({ key, kept, revision });
  return revision;
}

/** Interrupts the watches of this process on the bucket. The returned function resumes them with the missed changes. */
export function interruptWatches(world: BucketWorld, process: Process): (() => void) | undefined {
  const cut = [...world.watches].filter((each) => each.process === process && !each.interrupted);
  if (cut.length === 0) return undefined;
  for (const each of cut) each.interrupted = true;
  return () => {
    for (const each of cut) {
      each.interrupted = false;
      each.start();
    }
  };
}

function watch<Value>(
  world: BucketWorld,
  time: VirtualTime,
  network: Network,
  { filter, signal, onStatus }: WatchOptions,
  entry: (key: string, kept: Kept) => Entry<Value>,
): AsyncIterable<Change<Value>> {
  const process = time.current();
  if (process === undefined) throw new Error("only processes watch");
  const prefix = filter === undefined ? "" : filter.slice(0, filter.indexOf(">"));
  const waiting: Change<Value>[] = [];
  const received = new Set<string>();
  let wake = Promise.withResolvers<undefined>();
  let backlog: (() => void)[] = [];
  /** Queues all changes, so that they stay in order. */
  const arrive = (work: () => void): void => {
    backlog.push(work);
    network.deliver(process, () => {
      const next = backlog.shift();
      if (self.interrupted || next === undefined) return;
      next();
      wake.resolve(undefined);
    });
  };
  const notify = ({ key, kept, revision }: KeyChange): void => {
    if (!key.startsWith(prefix) || self.interrupted) return;
    arrive(() => {
      if (kept === undefined) received.delete(key);
      else received.add(key);
      waiting.push(kept === undefined ? { kind: "delete", key, revision } : { kind: "put", entry: entry(key, kept) });
    });
  };
  const start = (): void => {
    backlog = [];
    const existing = [...world.entries].filter(([key]) => key.startsWith(prefix));
    const keys = new Set(existing.map(([key]) => key));
    const { revision } = world;
    arrive(() => {
      for (const key of [...received]) if (!keys.has(key)) waiting.push({ kind: "delete", key, revision });
      received.clear();
      for (const [key, kept] of existing) {
        received.add(key);
        waiting.push({ kind: "put", entry: entry(key, kept) });
      }
      waiting.push({ kind: "synced" });
      onStatus?.("current");
    });
  };
  const self: Watch = { process, notify, start, interrupted: false };
  world.watches.add(self);
  signal.addEventListener("abort", () => {
    world.watches.delete(self);
    wake.resolve(undefined);
  });
  start();
  setInterval(() => onStatus?.(self.interrupted ? "interrupted" : "current"), HEARTBEAT_MS);
  return (async function* (): AsyncGenerator<Change<Value>> {
    while (!signal.aborted) {
      for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) yield next;
      await wake.promise;
      wake = Promise.withResolvers();
    }
  })();
}
