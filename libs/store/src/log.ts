import type { NatsConnection } from "@nats-io/nats-core";
import type { Codec } from "./codec.ts";

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
   * limit_exceeded when too many decisions wait.
   */
  transact<Result>(decide: (state: State) => Decision<Event, Result>): Promise<Result>;
  /** Aborted when this writer is deposed or the log is disposed: stop deciding, open again if still the leader. */
  readonly deposed: AbortSignal;
  /** Told after events are on disk, in order, with the state after them. */
  onCommit(listener: (events: readonly Event[], state: State) => void): void;
};

export type LogConfig<State, Event> = {
  readonly stream: { readonly name: string; readonly subject: string };
  /** One entry of the log holds the events of one or more decisions. */
  readonly events: Codec<readonly Event[]>;
  readonly snapshots: {
    readonly bucket: string;
    readonly key: string;
    readonly codec: Codec<State>;
    /** Entries between snapshots; default 1000. */ readonly everyEntries?: number;
  };
  readonly initial: State;
  /** Pure: the state after one event. */
  readonly evolve: (state: State, event: Event) => State;
  /** Fencing token of the lead under which we write; goes into each entry's header. */
  readonly token: number;
  /** Decisions that may wait at once; default 10000. */
  readonly maxWaiting?: number;
};

/** Opens the log for writing: snapshot, then the tail, then a fencing entry so that an older writer's next append is refused. */
export function openLog<State, Event>(
  connection: NatsConnection,
  config: LogConfig<State, Event>,
): Promise<Log<State, Event>> {
  void connection;
  void config;
  throw new Error("pending");
}
