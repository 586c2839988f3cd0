import type { Signer } from "@muster/leases/keys";
import type { DeadLetterBox } from "./adapters/dead-letters.ts";
import type { MusterServices } from "./adapters/muster-services.ts";
import type { StreamCopies } from "./adapters/stream-copies.ts";
import type { TableStyle } from "./domain/build-table.ts";
import type { DroppedSignals, NatsObservation, ServiceReplica } from "./domain/build-doctor-report.ts";
import type { Connection } from "./domain/decide-connection.ts";
import type { Link } from "./kinds/kind.ts";
import type { Kinds } from "./kinds/kinds.ts";

/** Options of every command. */
export type CommonOptions = { readonly natsUrl?: string; readonly namespace?: string };

/** What a command may touch: the terminal, files, time, and the services once it connects. */
export type Cli = {
  readonly io: Io;
  readonly kinds: Kinds;
  readonly now: () => number;
  /** Resolves after the delay, or at once when the signal is aborted. */
  readonly pause: (delayMs: number, signal?: AbortSignal) => Promise<void>;
  /** This many random letters and digits, fit for a DNS label. */
  readonly randomLetters: (count: number) => string;
  readonly randomId: () => string;
  /** Who calls, for people: `ada@laptop`. */
  readonly caller: () => string;
  readonly interrupts: Interrupts;
  readonly keys: Keys;
  /** Where `connect` goes, and why. */
  readonly connection: () => Connection;
  /**
   * Rejects with CommandError when nobody answers. The signal, the first interrupt unless another one is given, gives up the connecting and every question
   * that is asked over the connection.
   */
  readonly connect: (stop?: AbortSignal) => Promise<Connected>;
  /** A connection as the user `backup`, which may do nothing but copy and restore; the first interrupt gives up. */
  readonly streamCopies: () => Promise<StreamCopies>;
};

/** The private key of whoever types. It never leaves what signs with it. */
export type Keys = {
  /** Where the key is; `file` is what an option said. The environment goes before the file that is meant where nothing is said. */
  readonly whereIs: (file: string | undefined) => { readonly file: string } | { readonly variable: string };
  /** Rejects with CommandError where there is none, or where others may read it. */
  readonly read: (file: string | undefined) => Promise<Signer>;
  /** Makes a new one, in a file that is not there yet. Rejects with CommandError. */
  readonly make: (file: string | undefined) => Promise<{ readonly signer: Signer; readonly file: string }>;
};

/** Whoever looks at one of them has to heed it: until then the signals end the process at once. */
export type Interrupts = {
  /** Aborted by the first Ctrl-C or SIGTERM. */
  readonly first: AbortSignal;
  /** Aborted by the second. */
  readonly second: AbortSignal;
};

export type Connected = AsyncDisposable & {
  readonly services: MusterServices;
  /** For what is asked of one kind of work. */
  readonly link: Link;
  readonly deadLetters: DeadLetterBox;
  readonly nats: () => Promise<NatsObservation>;
  readonly replicas: () => Promise<readonly ServiceReplica[]>;
  /** What services were too slow for since they started. */
  readonly dropped: () => Promise<readonly DroppedSignals[]>;
  /** Calls the listener when the connection is lost and when it is back, until disposed. */
  readonly onLink: (listener: (state: "lost" | "back") => void) => Disposable;
};

export type Io = {
  /** Lines on standard output: what was asked for. */
  readonly out: (lines: readonly string[]) => void;
  /** Lines on standard error: what happens meanwhile, and what goes wrong. */
  readonly err: (lines: readonly string[]) => void;
  /** Bytes on standard output; resolves when they are handed on. */
  readonly write: (bytes: Uint8Array | string) => Promise<void>;
  /** Control sequences and lines that are drawn over; only where `errStyle().interactive`. */
  readonly draw: (text: string) => void;
  readonly outStyle: () => TableStyle;
  readonly errStyle: () => TableStyle & { readonly rows: number; readonly interactive: boolean };
  /** Text of a file; of standard input when the path is `-`. Rejects with CommandError. */
  readonly read: (path: string, bytesMax: number) => Promise<string>;
  /** The line that somebody at the terminal answers with, empty where they leave instead or the signal is aborted; undefined where there is no terminal. */
  readonly ask: (question: string, signal: AbortSignal) => Promise<string | undefined>;
  /** Aborted when nobody reads standard output any more. */
  readonly closed: AbortSignal;
};
