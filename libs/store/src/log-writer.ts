import type { NatsConnection } from "@nats-io/nats-core";
import { FaultError, findFault, throwFault } from "@muster/faults";
import type { ListCodec, Codec } from "./codec.ts";
import type { Snapshot, Snapshots, SnapshotCodec } from "./log-snapshots.ts";
import type { AppendResult, LogStream } from "./log-stream.ts";
import { planBatch } from "./plan-batch.ts";

/** The events of a decision, and its answer once they are on disk. */
export type Decision<Event, Result> = { readonly events: readonly Event[]; readonly result: Result };

/**
 * An event-sourced log with one writer. A decision sees the state after every earlier decision, also those that are not yet on disk. Its answer is returned
 * once its events are on disk. Decisions that wait during a write share the next one. A deposed writer cannot write: its append names an outdated last
 * sequence, and is refused.
 */
export type Log<State, Event> = AsyncDisposable & {
  /** The state on disk. Never mutated: `evolve` returns a new one. */
  readonly state: State;
  /** Sequence of the last entry on disk; 0 when empty. */
  readonly sequence: number;
  /**
   * Decides and persists. `decide` must be pure and fast; if it throws a FaultError, only this call rejects. Rejects with unavailable if the entry could not be
   * written or this writer is deposed: the outcome may be unknown, so retry with the same request id. Rejects with limit_exceeded if too many decisions wait,
   * or its events exceed an entry. A decision that has no events or throws is answered once everything that it read is on disk.
   */
  transact<Result>(decide: (state: State) => Decision<Event, Result>): Promise<Result>;
  /**
   * Aborted when this writer is deposed or the log is disposed: stop deciding, and open the log again if this process still leads. The reason is a FaultError,
   * or the defect that ended the writer.
   */
  readonly deposed: AbortSignal;
  /** Calls the listener after events are on disk, in order, with the state after them. */
  onCommit(listener: (events: readonly Event[], state: State) => void): void;
};

export type LogConfig<State, Event> = {
  readonly stream: { readonly name: string; readonly subject: string };
  /**
   * Encodes the events of one or more decisions as one entry. With `join`, each decision is encoded once; without it, again together with the others of its
   * entry.
   */
  readonly events: ListCodec<Event>;
  readonly snapshots: {
    readonly bucket: string;
    readonly key: string;
    readonly codec: Codec<State> | SnapshotCodec<State>;
    /** Entries between snapshots; default 1000. */
    readonly everyEntries?: number;
    /** Entries kept before the last snapshot; older ones are dropped. Default: twice everyEntries. Infinity keeps all. */
    readonly keepEntries?: number;
  };
  readonly initial: State;
  /** Returns the state after one event; pure. */
  readonly evolve: (state: State, event: Event) => State;
  /** Fencing token of the lead of this writer; each entry has it in a header. */
  readonly token: number;
  /** Maximum waiting decisions; default 10000. */
  readonly maxWaiting?: number;
  /** Largest entry in bytes; default 512 KiB, at most the server's limit. One decision must fit. */
  readonly maxEntryBytes?: number;
  /** Aborts when this writer loses its lock; the log then accepts no more writes. */
  readonly signal?: AbortSignal;
  /** `isHeld` of the lead, checked before each decision and each write, so that a process that was frozen past its lead writes nothing. */
  readonly isHeld?: () => boolean;
  /** Called with a snapshot that could not be written; it is retried later. Default: a process warning. */
  readonly onProblem?: (problem: Error) => void;
};

type LogWriterParts<State, Event> = {
  readonly config: LogConfig<State, Event>;
  readonly stream: LogStream;
  readonly snapshots: Snapshots<State>;
  readonly recovered: Snapshot<State>;
  /** Sequence of the stored snapshot. */
  readonly snapshotAt: number;
};

type Waiting<State, Event> = {
  readonly events: readonly Event[];
  /** The encoded events of the decision. */
  readonly bytes: Uint8Array;
  /** The state after the decision, if everything before it reaches the disk. */
  readonly state: State;
  readonly answer: () => void;
  readonly refuse: (error: unknown) => void;
};

const EVERY_ENTRIES = 1000;
const MAX_WAITING = 10_000;
const MAX_ENTRY_BYTES = 512 * 1024;
const NO_BYTES = new Uint8Array();
/** Space for the headers beside the events. */
const HEADER_BYTES = 2048;
const RETRY_AFTER_MS = 500;
/** Maximum milliseconds that disposal waits for the write in flight. */
const DISPOSE_MS = 5000;

/** The one writer: decides against the tentative state, and writes the queued events whenever the previous write is done. */
export class LogWriter<State, Event> implements Log<State, Event> {
  readonly #connection: Pick<NatsConnection, "info">;
  readonly #config: LogConfig<State, Event>;
  readonly #stream: LogStream;
  readonly #snapshotter: Snapshotter<State>;
  readonly #deposed = new AbortController();
  readonly #listeners: ((events: readonly Event[], state: State) => void)[] = [];
  #durable: Snapshot<State>;
  /** The state for decisions, as if all queued events were on disk. */
  #tentative: State;
  #waiting: Waiting<State, Event>[] = [];
  #inFlight: readonly Waiting<State, Event>[] = [];
  #writing: Promise<void> | undefined;
  #closing = false;

  constructor(connection: Pick<NatsConnection, "info">, parts: LogWriterParts<State, Event>) {
    this.#connection = connection;
    this.#config = parts.config;
    this.#stream = parts.stream;
    this.#durable = parts.recovered;
    this.#tentative = parts.recovered.state;
    this.#snapshotter = startSnapshotter(parts, this.#deposed.signal);
    const { signal } = parts.config;
    signal?.addEventListener("abort", this.#onLeadLost);
    if (signal?.aborted === true) this.#onLeadLost();
  }

  get state(): State {
    return this.#durable.state;
  }

  get sequence(): number {
    return this.#durable.sequence;
  }

  get deposed(): AbortSignal {
    return this.#deposed.signal;
  }

  onCommit(listener: (events: readonly Event[], state: State) => void): void {
    this.#listeners.push(listener);
  }

  transact<Result>(decide: (state: State) => Decision<Event, Result>): Promise<Result> {
    // An error thrown inside the executor rejects the promise.
    return new Promise((resolve, reject) => {
      this.#admit();
      const { events, answer } = attempt(() => decide(this.#tentative), { resolve, reject });
      const bytes = this.#encode(events);
      const state = events.reduce(this.#config.evolve, this.#tentative);
      if (events.length === 0 && this.#outstanding() === 0) {
        answer();
        return;
      }
      this.#tentative = state;
      this.#waiting.push({ events, bytes, state, answer, refuse: reject });
      this.#kick();
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing = true;
    const timer = setTimeout(() => this.#depose(undefined, "it was closed before all was written"), DISPOSE_MS);
    const ended = new Promise<void>((resolve) => {
      if (this.#isDeposed()) resolve();
      this.#deposed.signal.addEventListener("abort", () => resolve());
    });
    while (this.#writing !== undefined && !this.#isDeposed()) await Promise.race([this.#writing, ended]);
    await Promise.race([this.#snapshotter.idle(), ended]);
    clearTimeout(timer);
    this.#depose(undefined, "it was closed");
    this.#config.signal?.removeEventListener("abort", this.#onLeadLost);
    await this.#snapshotter.idle();
  }

  readonly #onLeadLost = (): void => this.#depose(this.#config.signal?.reason, "the lead was lost");

  #checkLead(): void {
    if (this.#config.isHeld?.() === false) this.#depose(undefined, "the lead was lost");
  }

  #isDeposed(): boolean {
    return this.#deposed.signal.aborted;
  }

  #outstanding(): number {
    return this.#waiting.length + this.#inFlight.length;
  }

  #admit(): void {
    const { name } = this.#config.stream;
    this.#checkLead();
    if (this.#isDeposed() || this.#closing) throw outOfOrder(name, "its writer has ended", this.#deposed.signal.reason);
    const limit = this.#config.maxWaiting ?? MAX_WAITING;
    if (this.#outstanding() < limit) return;
    throwFault({
      code: "limit_exceeded",
      what: `decisions waiting for log ${name}`,
      limit,
      retryAfterMs: RETRY_AFTER_MS,
    });
  }

  #maxBytes(): number {
    const payload = this.#connection.info?.max_payload ?? Number.POSITIVE_INFINITY;
    return Math.min(this.#config.maxEntryBytes ?? MAX_ENTRY_BYTES, payload - HEADER_BYTES);
  }

  /** Encodes the events; throws if an entry cannot hold them. */
  #encode(events: readonly Event[]): Uint8Array {
    if (events.length === 0) return NO_BYTES;
    const bytes = this.#config.events.encode(events);
    const limit = this.#maxBytes();
    if (bytes.length <= limit) return bytes;
    const what = `decision of ${bytes.length} bytes for log ${this.#config.stream.name}`;
    return throwFault({ code: "limit_exceeded", what, limit, retryAfterMs: 0 });
  }

  #kick(): void {
    this.#writing ??= this.#write()
      .catch((error: unknown) => this.#depose(error, "a defect", findFault(error) === undefined))
      .finally(() => {
        this.#writing = undefined;
        if (this.#waiting.length > 0) this.#kick();
      });
  }

  async #write(): Promise<void> {
    // Waits so that callers of the same turn share an entry.
    await Promise.resolve();
    while (this.#waiting.length > 0) {
      const { count, bytes } = nextEntry(this.#config, this.#waiting, this.#maxBytes());
      this.#inFlight = this.#waiting.slice(0, count);
      this.#waiting = this.#waiting.slice(count);
      let { sequence } = this.#durable;
      this.#checkLead();
      if (this.#isDeposed()) return;
      if (bytes !== undefined) {
        const outcome = await this.#stream.append(bytes, sequence, this.#deposed.signal);
        if (this.#isDeposed()) return;
        if (outcome.kind !== "written") {
          this.#depose(outcome.error, describe(outcome.kind));
          return;
        }
        sequence = outcome.sequence;
      }
      this.#commit(sequence);
    }
  }

  #commit(sequence: number): void {
    const done = this.#inFlight;
    this.#inFlight = [];
    this.#durable = { state: done.at(-1)?.state ?? this.#durable.state, sequence };
    const events = done.flatMap((one) => one.events);
    if (events.length > 0) for (const listener of this.#listeners) notify(listener, events, this.#durable.state);
    for (const { answer } of done) answer();
    this.#snapshotter.offer(this.#durable);
  }

  #depose(cause: unknown, because: string, isDefect = false): void {
    if (this.#isDeposed()) return;
    const rejected = [...this.#inFlight, ...this.#waiting];
    this.#inFlight = [];
    this.#waiting = [];
    this.#tentative = this.#durable.state;
    const fault = outOfOrder(this.#config.stream.name, because, cause);
    this.#deposed.abort(isDefect ? cause : fault);
    for (const { refuse } of rejected) refuse(fault);
  }
}

/** Runs a decision. A refusal is also an answer: the state that caused it must be on disk before the caller receives it. */
function attempt<Event, Result>(
  decide: () => Decision<Event, Result>,
  { resolve, reject }: { readonly resolve: (result: Result) => void; readonly reject: (error: unknown) => void },
): { readonly events: readonly Event[]; readonly answer: () => void } {
  try {
    const { events, result } = decide();
    return { events, answer: () => resolve(result) };
  } catch (error) {
    return { events: [], answer: () => reject(error) };
  }
}

/** Builds the bytes of the next entry and counts its decisions; no bytes if none of them has events. */
function nextEntry<State, Event>(
  config: LogConfig<State, Event>,
  waiting: readonly Waiting<State, Event>[],
  limitBytes: number,
): { readonly count: number; readonly bytes: Uint8Array | undefined } {
  let count = planBatch(
    waiting.map(({ bytes }) => bytes.length),
    limitBytes,
  );
  for (;;) {
    const together = waiting.slice(0, count).filter(({ events }) => events.length > 0);
    if (together.length === 0) return { count, bytes: undefined };
    const bytes = encodeTogether(config.events, together);
    // The joined encoding can exceed the sum of the parts; then fewer decisions share an entry.
    if (bytes.length <= limitBytes || count === 1) return { count, bytes };
    count = Math.floor(count / 2);
  }
}

function encodeTogether<State, Event>(codec: ListCodec<Event>, together: readonly Waiting<State, Event>[]): Uint8Array {
  const parts = together.map(({ bytes }) => bytes);
  return codec.join?.(parts) ?? codec.encode(together.flatMap(({ events }) => events));
}

type Snapshotter<State> = { offer(durable: Snapshot<State>): void; idle(): Promise<void> };

/** Writes snapshots, one at a time, and drops the entries that are old enough afterwards. Stops once deposed. */
function startSnapshotter<State, Event>(parts: LogWriterParts<State, Event>, deposed: AbortSignal): Snapshotter<State> {
  const { config, stream, snapshots } = parts;
  const { everyEntries = EVERY_ENTRIES, keepEntries = 2 * everyEntries } = config.snapshots;
  const onProblem = config.onProblem ?? ((problem: Error) => process.emitWarning(problem));
  let nextAt = parts.snapshotAt + everyEntries;
  let busy: Promise<void> | undefined;
  const write = async (snapshot: Snapshot<State>): Promise<void> => {
    try {
      await snapshots.write(snapshot, deposed);
      if (deposed.aborted) return;
      nextAt = snapshot.sequence + everyEntries;
      const from = snapshot.sequence - keepEntries + 1;
      if (from > 1) await stream.dropBefore(from);
    } catch (error) {
      nextAt = Math.max(nextAt, snapshot.sequence + Math.ceil(everyEntries / 10));
      onProblem(new Error(`writing the snapshot of log ${config.stream.name}`, { cause: error }));
    } finally {
      busy = undefined;
    }
  };
  return {
    offer: (durable) => {
      if (busy === undefined && !deposed.aborted && durable.sequence >= nextAt) busy = write(durable);
    },
    idle: () => busy ?? Promise.resolve(),
  };
}

function describe(kind: Exclude<AppendResult["kind"], "written">): string {
  switch (kind) {
    case "deposed":
      return "another writer has taken over";
    case "refused":
      return "the server refused the entry";
    case "unknown":
      return "whether the entry was written is not known";
  }
}

function outOfOrder(name: string, because: string, cause: unknown): FaultError {
  return new FaultError(
    { code: "unavailable", dependency: `log ${name}`, retryAfterMs: RETRY_AFTER_MS },
    { doing: because, cause },
  );
}

/** Calls a listener. If it throws, that is a defect of its owner: the error becomes an uncaught exception, and the log continues. */
function notify<State, Event>(
  listener: (events: readonly Event[], state: State) => void,
  events: readonly Event[],
  state: State,
): void {
  try {
    listener(events, state);
  } catch (error) {
    queueMicrotask(() => {
      throw error;
    });
  }
}
