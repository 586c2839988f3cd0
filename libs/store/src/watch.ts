import type { NatsConnection } from "@nats-io/nats-core";
import { findFault } from "@muster/faults";
import { computeBackoffMs, pause } from "@muster/backoff";
import { waitForConnection, RETRY } from "./connection-events.ts";
import { isRefusal, JETSTREAM, findJetStreamCode, toFault, buildUnavailableError } from "./jetstream-fault.ts";
import { consumeInOrder, type StreamMessage } from "./consume-in-order.ts";

export type Entry<Value> = { readonly key: string; readonly value: Value; readonly revision: number };

export type Change<Value> =
  | { readonly kind: "put"; readonly entry: Entry<Value> }
  | { readonly kind: "delete"; readonly key: string; readonly revision: number }
  /** Everything that existed when the watch began has been reported. */
  | { readonly kind: "synced" };

/** Keys of the bucket when its latest write had this revision. */
export type PresentKeys = { readonly keys: ReadonlySet<string>; readonly revision: number };

type WatchTarget<Value> = {
  readonly name: string;
  readonly stream: string;
  readonly prefix: string;
  readonly filter: string;
  readonly signal: AbortSignal;
  readonly onStatus: (status: "current" | "interrupted") => void;
  readonly onProblem: (error: unknown, retryInMs: number) => void;
  /** Recreates the bucket after it was lost with the disk of the server. */
  readonly ensure: () => Promise<void>;
  /** Interval of checks for missing keys. */
  readonly checkMs: number;
  readonly present: () => Promise<PresentKeys>;
  /** Creation time of the stream: revisions of two streams are not comparable. */
  readonly created: () => Promise<string>;
  /** The entry of a message; undefined when it marks the key as deleted. */
  readonly read: (message: StreamMessage) => { readonly key: string; readonly entry: Entry<Value> | undefined };
};

/**
 * Passes over the bucket, again after each interruption, and reports the differences to earlier reports. Each pass begins with the last value of every key. So
 * comparison finds every change in between, also keys without a deletion mark or a recreated bucket. A check that finds a reported key missing without a mark
 * begins the next pass.
 */
export async function* watchBucket<Value>(
  connection: NatsConnection,
  target: WatchTarget<Value>,
): AsyncGenerator<Change<Value>, undefined> {
  const { signal, onStatus } = target;
  /** Reported keys, with the reported revision. */
  const reported = new Map<string, number>();
  let created: string | undefined;
  let synced = false;
  let failures = 0;
  for (;;) {
    await waitForConnection(connection, signal);
    if (signal.aborted) return;
    try {
      const now = await target.created();
      // Keeps the keys, so that missing ones are reported as deleted; their revisions are meaningless in the new bucket.
      if (created !== now) for (const key of reported.keys()) reported.set(key, 0);
      created = now;
      using checking = checkForMissing(target, reported);
      const passSignal = AbortSignal.any([signal, checking.found]);
      for await (const change of watchPass(connection, { ...target, signal: passSignal }, reported)) {
        failures = 0;
        if (change.kind !== "synced") yield change;
        else if (!synced) {
          synced = true;
          yield change;
        }
      }
    } catch (error) {
      onStatus("interrupted");
      const problem = await prepareNext(connection, target, error, synced);
      failures += 1;
      const retryInMs = computeBackoffMs(failures, RETRY);
      target.onProblem(problem, retryInMs);
      await pause(retryInMs, signal);
    }
  }
}

/** Checks until disposed, and aborts `found` once a reported key is missing. A failed check is repeated with the next one. */
function checkForMissing<Value>(
  { checkMs, present, signal }: WatchTarget<Value>,
  reported: ReadonlyMap<string, number>,
): Disposable & { readonly found: AbortSignal } {
  const found = new AbortController();
  const end = new AbortController();
  const isOver = (): boolean => found.signal.aborted || end.signal.aborted || signal.aborted;
  const run = async (): Promise<void> => {
    while (!isOver()) {
      await pause(computeBackoffMs(1, { firstMs: checkMs, maxMs: checkMs }), end.signal);
      if (isOver()) return;
      const now = await present().catch(() => undefined);
      // A key that was reported with a later revision was written after the list.
      const isMissing = [...reported].some(([key, revision]) => now && revision <= now.revision && !now.keys.has(key));
      if (isMissing && !isOver()) found.abort();
    }
  };
  void run();
  return { found: found.signal, [Symbol.dispose]: () => end.abort() };
}

async function* watchPass<Value>(
  connection: NatsConnection,
  target: WatchTarget<Value>,
  reported: Map<string, number>,
): AsyncGenerator<Change<Value>, undefined> {
  const { stream, prefix, filter, signal } = target;
  const met = new Set<string>();
  let caughtUp = false;
  let revision = 0;
  const pass = consumeInOrder(connection, {
    stream,
    subject: prefix + filter,
    from: "last-of-each-subject",
    signal,
    onAlive: () => {
      if (caughtUp) target.onStatus("current");
    },
  });
  for await (const message of pass) {
    if (message.kind === "caught-up") {
      for (const key of reported.keys()) {
        if (met.has(key)) continue;
        reported.delete(key);
        yield { kind: "delete", key, revision };
      }
      met.clear();
      caughtUp = true;
      target.onStatus("current");
      yield { kind: "synced" };
      continue;
    }
    revision = message.sequence;
    const { key, entry } = target.read(message);
    if (!caughtUp) met.add(key);
    if (entry !== undefined) {
      if (reported.get(key) === entry.revision) continue;
      reported.set(key, entry.revision);
      yield { kind: "put", entry };
    } else if (reported.delete(key)) yield { kind: "delete", key, revision };
  }
}

/** Prepares the next attempt and returns the error to report, or throws the error that ends the watch. */
async function prepareNext<Value>(
  connection: NatsConnection,
  target: WatchTarget<Value>,
  error: unknown,
  synced: boolean,
): Promise<unknown> {
  if (connection.isClosed()) throw buildUnavailableError(`watching ${target.name}: the connection is closed`, error);
  if (findJetStreamCode(error) === JETSTREAM.streamNotFound)
    return target.ensure().then(
      () => error,
      // This failure explains why the bucket stays missing; the next attempt would report only that it is missing.
      (failure: unknown) => failure,
    );
  if (findFault(toFault(error, `watching ${target.name}`))?.code === "unavailable") return error;
  // A first refusal fails the caller immediately. After a successful pass, a refusal may be temporary.
  if (!synced || !isRefusal(error)) throw error;
  return error;
}
