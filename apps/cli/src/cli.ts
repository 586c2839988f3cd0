import type { Signer } from "@muster/leases/keys";
import type { DeadLetterBox } from "./adapters/dead-letters.ts";
import type { MusterServices } from "./adapters/muster-services.ts";
import type { StreamCopies } from "./adapters/stream-copies.ts";
import type { TableStyle } from "./domain/build-table.ts";
import type { DroppedSignals, NatsObservation, ServiceReplica } from "./domain/build-doctor-report.ts";
import type { Connection } from "./domain/decide-connection.ts";
import type { Contexts } from "./domain/contexts.ts";
import type { GatewayOptions } from "./domain/decide-gateway.ts";
import type { ServiceLink } from "./kinds/kind.ts";

/** Options that every command has. */
export type CommonOptions = GatewayOptions & { readonly namespace?: string; readonly allNamespaces?: boolean };

/** The command's access to everything outside the process: the terminal, files, time, and the services after `connect`. */
export type Cli = {
  readonly io: TerminalIo;
  readonly now: () => number;
  /** Resolves after the delay, or immediately when the signal is aborted. */
  readonly pause: (delayMs: number, signal?: AbortSignal) => Promise<void>;
  /** Returns this many random letters and digits, which are valid in a DNS label. */
  readonly randomLetters: (count: number) => string;
  readonly randomId: () => string;
  /** The user who runs the command: `ada@laptop`. */
  readonly caller: () => string;
  readonly interrupts: Interrupts;
  readonly keys: Keys;
  /** Options that every command has. */
  readonly common: () => CommonOptions;
  /** The address of the gateway in the environment. */
  readonly server: string | undefined;
  /** Whether tokens may cross a network unencrypted. */
  readonly isPlainHttpAllowed: boolean;
  /** Access to the file of contexts. Each call rejects with CommandError. */
  readonly contexts: {
    readonly read: () => Promise<Contexts>;
    readonly write: (contexts: Contexts) => Promise<void>;
  };
  /**
   * Returns the NATS server that `connect` would use, and why it is selected. Rejects with CommandError if `connect` would use a gateway; the error states that
   * `what` needs NATS.
   */
  readonly natsConnection: (what: string) => Promise<Connection>;
  /**
   * Connects. Rejects with CommandError if no server answers. The signal, by default the first interrupt, ends the attempt to connect and every call over the
   * connection.
   */
  readonly connect: (stop?: AbortSignal) => Promise<ConnectedCli>;
  /** Connects as the user `backup`, which may only copy and restore; the first interrupt closes the connection. */
  readonly streamCopies: () => Promise<StreamCopies>;
};

/** The private key of the user. Only the signer reads it. */
export type Keys = {
  /** Returns the location of the key; `file` is the value of an option. The environment precedes the default file. */
  readonly whereIs: (file: string | undefined) => { readonly file: string } | { readonly variable: string };
  /** Rejects with CommandError if the key is missing, or other users may read it. */
  readonly read: (file: string | undefined) => Promise<Signer>;
  /** Creates a key in a new file. Rejects with CommandError. */
  readonly make: (file: string | undefined) => Promise<{ readonly signer: Signer; readonly file: string }>;
};

/** Signals of this process. A command that reads one of them must obey it; until then a signal ends the process immediately. */
export type Interrupts = {
  /** Aborted by the first Ctrl-C or SIGTERM. */
  readonly first: AbortSignal;
  /** Aborted by the second Ctrl-C or SIGTERM. */
  readonly second: AbortSignal;
};

export type ConnectedCli = AsyncDisposable & {
  /** The address of the server, for people. */
  readonly address: string;
  /** The remedy if the server does not answer, from the current state. */
  readonly hint: () => string;
  readonly services: MusterServices;
  /** The connection for the calls of one resource. */
  readonly link: ServiceLink;
  readonly deadLetters: DeadLetterBox;
  readonly nats: () => Promise<NatsObservation>;
  readonly replicas: () => Promise<readonly ServiceReplica[]>;
  /** Lists signals that slow services have lost since they started. */
  readonly dropped: () => Promise<readonly DroppedSignals[]>;
  /** Calls the listener when the connection is lost and when it is restored, until disposed. */
  readonly onLink: (listener: (state: "lost" | "back") => void) => Disposable;
};

export type TerminalIo = {
  /** Prints the result on standard output. */
  readonly out: (lines: readonly string[]) => void;
  /** Prints progress and errors on standard error. */
  readonly err: (lines: readonly string[]) => void;
  /** Writes bytes to standard output; resolves when they are written. */
  readonly write: (bytes: Uint8Array | string) => Promise<void>;
  /** Draws control sequences and lines that a later call overwrites; use it only if `errStyle().interactive`. */
  readonly draw: (text: string) => void;
  readonly outStyle: () => TableStyle;
  readonly errStyle: () => TableStyle & { readonly rows: number; readonly interactive: boolean };
  /** Reads the text of a file, or of standard input if the path is `-`. Rejects with CommandError. */
  readonly read: (path: string, maxBytes: number) => Promise<string>;
  /** Prompts the user at the terminal. The answer is empty at end of input and after an abort, and undefined without a terminal. */
  readonly ask: (question: string, signal: AbortSignal) => Promise<string | undefined>;
  /** Aborted when the reader of standard output has closed it. */
  readonly closed: AbortSignal;
};
