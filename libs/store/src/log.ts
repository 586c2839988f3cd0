import { randomUUID } from "node:crypto";
import type { NatsConnection } from "@nats-io/nats-core";
import { throwFault } from "@muster/faults";
import type { Codec, ListCodec } from "./codec.ts";
import { openSnapshots, type Snapshot, type SnapshotCodec } from "./log-snapshots.ts";
import { openLogStream, type LogEntry, type LogStream } from "./log-stream.ts";
import { LogWriter } from "./log-writer.ts";

/** What a decision wants to be remembered, and what to answer once it is. */
export type Decision<Event, Result> = { readonly events: readonly Event[]; readonly result: Result };

/**
 * An event-sourced log with one writer. A decision sees the state after every decision before it, also those still on their way to disk; its answer is given
 * only when its events are on disk. Decisions that wait while a write is under way go together in the next one. A writer that was deposed cannot write: its
 * append names the sequence it believes to be the last, and is refused.
 */
export type Log<State, Event> = AsyncDisposable & {
  /** The state of what is on disk. Never mutated: each write makes a new one or `evolve` does so. */
  readonly state: State;
  /** Sequence of the last entry on disk; 0 when empty. */
  readonly sequence: number;
  /**
   * Decides and remembers. `decide` must be pure and fast; throwing a FaultError rejects this call alone. Rejects with FaultError unavailable when the entry
   * could not be written or this writer is deposed (then nothing was remembered, or the answer is unknown: ask again with the same request id), and
   * limit_exceeded when too many decisions wait, or the events of this one are larger than an entry may be. A decision without events, or that
   * throws, is answered once everything that it has seen is on disk.
   */
  transact<Result>(decide: (state: State) => Decision<Event, Result>): Promise<Result>;
  /** Aborted when this writer is deposed or the log is disposed: stop deciding, open again if still the leader. */
  readonly deposed: AbortSignal;
  /** Told after events are on disk, in order, with the state after them. */
  onCommit(listener: (events: readonly Event[], state: State) => void): void;
};

export type LogConfig<State, Event> = {
  readonly stream: { readonly name: string; readonly subject: string };
  /** One entry of the log holds the events of one or more decisions. With `join` each decision is encoded once, without it again with those that go beside it. */
  readonly events: ListCodec<Event>;
  readonly snapshots: {
    readonly bucket: string;
    readonly key: string;
    readonly codec: Codec<State> | SnapshotCodec<State>;
    /** Entries between snapshots; default 1000. */
    readonly everyEntries?: number;
    /** Entries before the last snapshot that are kept; older ones are dropped. Default: twice everyEntries. Infinity keeps all. */
    readonly keepEntries?: number;
  };
  readonly initial: State;
  /** Pure: the state after one event. */
  readonly evolve: (state: State, event: Event) => State;
  /** Fencing token of the lead under which we write; goes into each entry's header. */
  readonly token: number;
  /** Decisions that may wait at once; default 10000. */
  readonly maxWaiting?: number;
  /** Largest entry in bytes; default 512 KiB, at most what the server takes. One decision must fit. */
  readonly maxEntryBytes?: number;
  /** The signal of the lead under which we write: once aborted, the log is deposed. */
  readonly signal?: AbortSignal;
  /** That of the lead: asked before each decision and each write, so that a process which was frozen past its lead writes nothing any more. */
  readonly isHeld?: () => boolean;
  /** Told about a snapshot that could not be written; it is tried again later. By default a process warning. */
  readonly onProblem?: (problem: Error) => void;
};

/**
 * Opens the log for writing: snapshot, then a fencing entry so that an older writer's next append is refused, then the tail up to it. Rejects with FaultError
 * conflict when a writer with a larger token has written, unavailable when the server does not answer, and with a plain Error when the log is damaged:
 * an entry is missing or does not decode.
 */
export async function openLog<State, Event>(
  connection: NatsConnection,
  config: LogConfig<State, Event>,
): Promise<Log<State, Event>> {
  const { name } = config.stream;
  const stream = await openLogStream(connection, config.stream, { token: config.token, id: randomUUID() });
  await stream.ensure();
  refuseIfStale(config, await stream.lastToken());
  const snapshots = await openSnapshots(connection, config.snapshots);
  const fence = await stream.fence(config.events.encode([]));
  // Read after the fence: whatever an older writer still did is before it.
  let snapshot = await snapshots.read();
  for (;;) {
    if (snapshot !== undefined && snapshot.sequence > fence)
      throw new Error(`log ${name} ends at ${fence}, before its snapshot at ${snapshot.sequence}: entries were lost`);
    try {
      const recovered = await replay(stream, config, snapshot, fence);
      return new LogWriter(connection, { config, stream, snapshots, recovered, snapshotAt: snapshot?.sequence ?? 0 });
    } catch (error) {
      // The older writer may just have made a snapshot and dropped the entries that we were reading.
      const newer = await snapshots.read();
      if (newer?.sequence === snapshot?.sequence) throw error;
      snapshot = newer;
    }
  }
}

async function replay<State, Event>(
  stream: LogStream,
  config: LogConfig<State, Event>,
  snapshot: Snapshot<State> | undefined,
  fence: number,
): Promise<Snapshot<State>> {
  let state = snapshot?.state ?? config.initial;
  for await (const entry of stream.read((snapshot?.sequence ?? 0) + 1, fence)) {
    refuseIfStale(config, entry.token);
    for (const event of decodeEntry(config, entry)) state = config.evolve(state, event);
  }
  return { state, sequence: fence };
}

function decodeEntry<State, Event>(config: LogConfig<State, Event>, entry: LogEntry): readonly Event[] {
  try {
    return config.events.decode(entry.bytes);
  } catch (error) {
    throw new Error(`decoding entry ${entry.sequence} of log ${config.stream.name}`, { cause: error });
  }
}

function refuseIfStale<State, Event>(config: LogConfig<State, Event>, token: number): void {
  if (token <= config.token) return;
  throwFault(
    { code: "conflict", id: config.stream.name, expectedRevision: config.token, actualRevision: token },
    { doing: "opening a log under a lead that is over" },
  );
}
