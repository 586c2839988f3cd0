import type { Placed, Problem } from "../adapters/parse-documents.ts";
import type { ReadDocument } from "../domain/read-document.ts";
import type { Cli, Connected } from "../cli.ts";
import type { CommandError } from "../command-error.ts";
import type { Schema } from "../domain/json-schema.ts";
import type { TableStyle } from "../domain/build-table.ts";
import type { ExitCode } from "../domain/decide-exit.ts";
import type { WaitVerdict, Goal } from "../domain/decide-wait.ts";
import type { Format } from "../commands/output.ts";
import type { Kind } from "./kind.ts";

/** Where output for people goes, and when. */
export type View = { readonly nowMs: number; readonly style: TableStyle };

/** One answer in the forms of `-o`. */
export type Shown = { readonly table: (style: TableStyle) => readonly string[]; readonly data: () => unknown };

/**
 * One row of the table of resources: all that differs between them. `get`, `describe`, `wait`, `events`, `explain`, `delete`, completion and "did you mean" are
 * generic over the rows. A further resource is one file with its row, and a line in `resources.ts`.
 */
export type Resource<Item extends object = object> = {
  /** Names one in commands and messages: `replica-set`. */
  readonly noun: string;
  readonly plural: string;
  /** The operations of `run`, `cancel` and `logs` on a kind of work. Absent: it is no work. */
  readonly work?: Kind;
  /** Other words for it, however their letters and hyphens are written. */
  readonly aliases?: readonly string[];
  /** The alias that completion offers. */
  readonly shortName?: string;
  /** `get` refuses it with this hint. */
  readonly listedBy?: string;
  /** The hint for a name that its service does not know. Absent: the row adds hints in `ask`, or has none. */
  readonly missing?: string;
  /** The table of an empty list. */
  readonly none: string;
  /** The name as the services know it. Throws CommandError for a text that cannot be one. */
  readonly checkName?: (text: string) => string;
  /** Whether a name of this form is most likely one of this resource, where no work has it. Absent: no form is typical. */
  readonly isNameOfForm?: (text: string) => boolean;
  /** Rejects with FaultError or CommandError when the item is missing. */
  get(connected: Connected, name: string): Promise<Item>;
  list(connected: Connected): Promise<readonly Item[]>;
  nameOf(item: Item): string;
  /** Whether completion offers its name. Absent: always. */
  isOffered?(item: Item): boolean;
  /** Puts a refusal into the words of the command, with a hint. */
  ask?<Answer>(connected: Connected, name: string, question: () => Promise<Answer>): Promise<Answer>;
  /** A table of all items, or of the `only` one. */
  table(items: readonly Item[], view: View, only?: true): readonly string[];
  record(item: Item): unknown;
  /** Lines for standard error below a list. */
  notes?(items: readonly Item[], nowMs: number): readonly string[];
  /** All that is known of one, for people. */
  describe?(item: Item, view: View): readonly string[];
  /** Reads one for its description. Absent: `get` reads all of it. */
  getWhole?(connected: Connected, name: string): Promise<Item>;
  readonly waiting?: Waiting<Item>;
  readonly events?: EventLog;
  /** Why an item is in its phase. Rejects with a fault where its service does not know the name. */
  readonly explain?: (cli: Cli, connected: Connected, name: string) => Promise<Shown>;
  /** The ledger may know it by an id that differs from its name, and `explain` takes that, too. */
  readonly hasOwnerIds?: true;
  readonly delete?: (cli: Cli, name: string, options: DeleteOptions) => Promise<ExitCode>;
  /** Why commands for sessions and jobs refuse it, and what to use instead. */
  readonly refusals?: Readonly<Record<"cancel" | "logs", Refusal>>;
  readonly documents?: DocumentRow;
  readonly schema?: SchemaRow;
};

export type Refusal = { readonly message: string; readonly hint: (name: string) => string };

/** The documents of a resource. */
export type DocumentRow<Value = unknown> = {
  /** Their `kind`. */
  readonly words: readonly string[];
  /** The error of other commands, with the command to use. */
  readonly elsewhere: (word: string) => string;
  readonly read: (document: unknown) => ReadDocument<Value>;
  /** The operations of `muster apply`. Absent: apply refuses them. */
  readonly applying?: Applying<Value>;
};

/** `muster apply` checks the documents of all resources before it sends the first one. */
export type Applying<Value> = {
  /** Names the item of a document. No two documents of one command may have the same. */
  titleOf(value: Value): string;
  /** Reads a document as `apply` takes it. Absent: as every command does. */
  read?(document: unknown): ReadDocument<Value>;
  /** Reads from the caller what is needed, such as a key, before the command connects. */
  prepare(cli: Cli, documents: readonly Placed<Value>[], options: ApplyOptions): Promise<CheckDocuments>;
};

/** Every problem that the service would report, with its place, and what sends the documents when no resource has any. */
export type CheckDocuments = (
  connected: Connected,
) => Promise<{ readonly problems: readonly Problem[]; readonly send: () => Promise<Sent> }>;

export type Sent = {
  readonly code: ExitCode;
  /** The records of the finished steps, also after a failure. */
  readonly records: readonly unknown[];
  /** The error of the command, after it has printed the rest; undefined: all succeeded. */
  readonly failure?: CommandError | undefined;
};

export type ApplyOptions = {
  /** Signs leases. */
  readonly keyFile: string | undefined;
  /** The key that secrets of leases are sealed to; undefined: the one that the engine reports. */
  readonly engineKey: string | undefined;
  readonly replace: boolean;
  readonly dryRun: boolean;
  readonly wait: boolean;
  readonly timeoutMs: number | undefined;
  readonly output: Format;
};

export type SchemaRow = {
  /** The argument of `muster schema`. */
  readonly word: string;
  readonly build: () => Schema;
};

/** The operations that `wait` needs. */
export type Waiting<Item extends object> = {
  readonly conditions: readonly string[];
  decide(item: Item, goal: Goal): WaitVerdict;
  /** Reads the next state. Absent: `get` by name. Rejects with the fault `not_found` when the item is gone. */
  next?(connected: Connected, seen: Item, signal: AbortSignal): Promise<Item>;
  /** `next` answers once the state differs; without it the item is polled. */
  readonly isLongPoll?: true;
  /** Differs between two items of one name. Absent: names are used once. */
  uidOf?(item: Item): string;
  /** Rejects with CommandError where no item of this name ever existed, so that its deletion cannot be waited for. */
  readonly requireHistory?: (connected: Connected, name: string) => Promise<void>;
  /** Whether the deletion meets the goal. Absent: only where the goal is the deletion. */
  isMetByDeletion?(
    connected: Connected,
    seen: { readonly start: Item; readonly last: Item },
    goal: Goal,
  ): Promise<boolean>;
  /** The lines on standard error about a goal that is met in an unexpected way. */
  note?(last: Item): readonly string[];
  /** The state in a sentence. */
  describe(item: Item): string;
  /** The object that `muster explain` explains. Absent: the item. */
  explained?(item: Item): { readonly kind: string; readonly name: string };
};

/** Events of one item or of all, in the order of time. */
export type EventLog<Event extends object = object> = {
  /** Events that have not been seen may be any of those that are read. */
  read(
    connected: Connected,
    query: EventQuery,
  ): Promise<{ readonly events: readonly Event[]; readonly isOver: boolean }>;
  /** It can be read without a name, too. */
  readonly ofAll?: true;
  /** How often a follower reads all of them again. */
  readonly pollMs: number;
  /** Calls the listener with the name of each item that has a new event, until disposed. A hint may be lost. */
  readonly onEvent?: (
    connected: Connected,
    listener: (name: string) => void,
    name?: string,
  ) => Promise<AsyncDisposable>;
  /** Differs between any two events. */
  keyOf(event: Event): string;
  none(name: string | undefined): string;
  table(events: readonly Event[], style: TableStyle): readonly string[];
  line(event: Event, style: TableStyle): string;
  record(event: Event): unknown;
};

export type EventQuery = {
  /** Undefined: of all items. */
  readonly name: string | undefined;
  /** Only of these items; undefined: of all that are meant. */
  readonly changed?: readonly string[] | undefined;
  /** The newest of them. */
  readonly limit?: number | undefined;
  readonly follow: boolean;
};

export type DeleteOptions = {
  readonly force: boolean;
  /** The pods stay. */
  readonly keepPods: boolean;
  readonly wait: boolean;
  readonly timeoutMs: number;
  readonly output: Format;
};
