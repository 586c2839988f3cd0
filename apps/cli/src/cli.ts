import type { Signer } from "@muster/leases/keys";
import type { DeadLetterBox } from "./adapters/dead-letters.ts";
import type { MusterServices } from "./adapters/muster-services.ts";
import type { StreamCopies } from "./adapters/stream-copies.ts";
import type { TableStyle } from "./domain/build-table.ts";
import type { DroppedSignals, NatsObservation, ServiceReplica } from "./domain/build-doctor-report.ts";
import type { Connection } from "./domain/decide-connection.ts";
import type { Contexts } from "./domain/contexts.ts";
import type { GatewayOptions } from "./domain/decide-gateway.ts";
import type { Link } from "./kinds/kind.ts";

/** Options of every command. */
export type CommonOptions = GatewayOptions & { readonly namespace?: string };

/** Everything outside that a command uses: the terminal, files, time, and the services once it connects. */
export type Cli = {
  readonly io: Io;
  readonly now: () => number;
  /** Resolves after the delay, or immediately when the signal is aborted. */
  readonly pause: (delayMs: number, signal?: AbortSignal) => Promise<void>;
  /** This many random letters and digits, fit for a DNS label. */
  readonly randomLetters: (count: number) => string;
  readonly randomId: () => string;
  /** The user who runs the command: `ada@laptop`. */
  readonly caller: () => string;
  readonly interrupts: Interrupts;
  readonly keys: Keys;
  /** Options of every command. */
  readonly common: () => CommonOptions;
  /** The gateway of the environment. */
  readonly server: string | undefined;
  /** Whether tokens may cross a network in plain text. */
  readonly isPlainHttpAllowed: boolean;
  /** The file of contexts. Each rejects with CommandError. */
  readonly contexts: {
    readonly read: () => Promise<Contexts>;
    readonly write: (contexts: Contexts) => Promise<void>;
  };
  /** The NATS server that `connect` goes to, and why. Rejects with CommandError where it goes to a gateway; `what` needs NATS. */
  readonly natsConnection: (what: string) => Promise<Connection>;
  /**
   * Rejects with CommandError when no server answers. The signal, by default the first interrupt, ends the attempt to connect and every call over the
   * connection.
   */
  readonly connect: (stop?: AbortSignal) => Promise<Connected>;
  /** A connection as the user `backup`, which may only copy and restore; the first interrupt ends it. */
  readonly streamCopies: () => Promise<StreamCopies>;
};

/** The private key of the user. Only the signer reads it. */
export type Keys = {
  /** Where the key is; `file` is the value of an option. The environment precedes the default file. */
  readonly whereIs: (file: string | undefined) => { readonly file: string } | { readonly variable: string };
  /** Rejects with CommandError where the key is missing, or where others may read it. */
  readonly read: (file: string | undefined) => Promise<Signer>;
  /** Makes a new key in a file that does not exist. Rejects with CommandError. */
  readonly make: (file: string | undefined) => Promise<{ readonly signer: Signer; readonly file: string }>;
};

/** A command that reads one of them has to obey it; until then a signal ends the process immediately. */
export type Interrupts = {
  /** Aborted by the first Ctrl-C or SIGTERM. */
  readonly first: AbortSignal;
  /** Aborted by the second. */
  readonly second: AbortSignal;
};

export type Connected = AsyncDisposable & {
  /** The server, for people. */
  readonly address: string;
  /** The remedy to try if it does not answer, from the state at this moment. */
  readonly hint: () => string;
  readonly services: MusterServices;
  /** For the calls of one resource. */
  readonly link: Link;
  readonly deadLetters: DeadLetterBox;
  readonly nats: () => Promise<NatsObservation>;
  readonly replicas: () => Promise<readonly ServiceReplica[]>;
  /** Signals that slow services have lost since they started. */
  readonly dropped: () => Promise<readonly DroppedSignals[]>;
  /** Calls the listener when the connection is lost and when it is back, until disposed. */
  readonly onLink: (listener: (state: "lost" | "back") => void) => Disposable;
};

export type Io = {
  /** Lines on standard output: the result. */
  readonly out: (lines: readonly string[]) => void;
  /** Lines on standard error: progress and errors. */
  readonly err: (lines: readonly string[]) => void;
  /** Bytes on standard output; resolves when they are written. */
  readonly write: (bytes: Uint8Array | string) => Promise<void>;
  /** Control sequences and lines that are drawn over; only where `errStyle().interactive`. */
  readonly draw: (text: string) => void;
  readonly outStyle: () => TableStyle;
  readonly errStyle: () => TableStyle & { readonly rows: number; readonly interactive: boolean };
  /** Text of a file; of standard input when the path is `-`. Rejects with CommandError. */
  readonly read: (path: string, bytesMax: number) => Promise<string>;
  /** The answer of the user at the terminal; empty at end of input or when the signal is aborted; undefined without a terminal. */
  readonly ask: (question: string, signal: AbortSignal) => Promise<string | undefined>;
  /** Aborted when the reader of standard output has gone. */
  readonly closed: AbortSignal;
};
