import type { PlacedDocument, DocumentProblem } from "../adapters/parse-documents.ts";
import type { ReadDocument } from "../domain/read-document.ts";
import type { Cli, ConnectedCli } from "../cli.ts";
import type { CommandError } from "../command-error.ts";
import type { Schema } from "../domain/json-schema.ts";
import type { TableStyle } from "../domain/build-table.ts";
import type { ExitCode } from "../domain/decide-exit.ts";
import type { WaitVerdict, WaitGoal } from "../domain/decide-wait.ts";
import type { Format } from "../commands/output.ts";
import type { WorkKind } from "./kind.ts";

/** The time and the style of output for people. */
export type OutputView = { readonly nowMs: number; readonly style: TableStyle };

/** One answer in each format of `-o`. */
export type FormattedAnswer = {
  readonly table: (style: TableStyle) => readonly string[];
  readonly data: () => unknown;
};

/**
 * One row of the table of resources, which contains all differences between resources. `get`, `describe`, `wait`, `events`, `explain`, `delete`, completion and
 * "did you mean" are generic over the rows. A new resource is one file with its row, and a line in `resources.ts`.
 */
export type ResourceRow<Item extends object = object> = {
  /** The noun of one item in commands and messages: `replica-set`. */
  readonly noun: string;
  readonly plural: string;
  /** The operations of `run`, `cancel` and `logs` on a kind of work; absent if the resource is no work. */
  readonly work?: WorkKind;
  /** Other words for the resource; letter case and hyphens are ignored. */
  readonly aliases?: readonly string[];
  /** The alias that completion offers. */
  readonly shortName?: string;
  /** `get` refuses the resource with this hint. */
  readonly listedBy?: string;
  /** The hint for a name that the service does not know; absent if `ask` adds hints, or no hint exists. */
  readonly missing?: string;
  /** The table of an empty list. */
  readonly none: string;
  /** Returns the name as the services know it. Throws CommandError for an invalid name. */
  readonly checkName?: (text: string) => string;
  /** Returns whether a name of this form most likely belongs to this resource if no work has the name; absent if no form is typical. */
  readonly isNameOfForm?: (text: string) => boolean;
  /** Reads one item. Rejects with FaultError or CommandError if the item is missing. */
  get(connected: ConnectedCli, name: string): Promise<Item>;
  /** Lists all items, or those whose labels match the selector. */
  list(connected: ConnectedCli, selector?: string): Promise<readonly Item[]>;
  /** Set if `list` reads a selector. */
  readonly hasLabels?: true;
  nameOf(item: Item): string;
  /** Returns whether completion offers the item's name; absent: always. */
  isOffered?(item: Item): boolean;
  /** Translates a refusal into the terms of the command, with a hint. */
  ask?<Answer>(connected: ConnectedCli, name: string, question: () => Promise<Answer>): Promise<Answer>;
  /** Builds the table of all items, or of the single item if `only` is set. */
  table(items: readonly Item[], view: OutputView, only?: true): readonly string[];
  record(item: Item): unknown;
  /** Returns lines for standard error below a list. */
  notes?(items: readonly Item[], nowMs: number): readonly string[];
  /** Describes one item completely, for people. */
  describe?(item: Item, view: OutputView): readonly string[];
  /** Reads one item for its description; absent if `get` reads the whole item. */
  getWhole?(connected: ConnectedCli, name: string): Promise<Item>;
  readonly waiting?: WaitOperations<Item>;
  readonly events?: EventLog;
  /** Explains why an item is in its phase. Rejects with a fault if its service does not know the name. */
  readonly explain?: (cli: Cli, connected: ConnectedCli, name: string) => Promise<FormattedAnswer>;
  /** Set if the ledger's ids may differ from names; `explain` then accepts both. */
  readonly hasOwnerIds?: true;
  readonly delete?: (cli: Cli, name: string, options: DeleteOptions) => Promise<ExitCode>;
  /** The reason why commands for sessions and jobs refuse the resource, and the alternative. */
  readonly refusals?: Readonly<Record<"cancel" | "logs", OperationRefusal>>;
  readonly documents?: DocumentRow;
  readonly schema?: SchemaRow;
};

export type OperationRefusal = { readonly message: string; readonly hint: (name: string) => string };

/** The documents of a resource. */
export type DocumentRow<Value = unknown> = {
  /** Values of `kind` in the documents. */
  readonly words: readonly string[];
  /** Returns the error of other commands, which names the command to use. */
  readonly elsewhere: (word: string) => string;
  readonly read: (document: unknown) => ReadDocument<Value>;
  /** The operations of `muster apply`; absent: `apply` refuses the resource. */
  readonly applying?: ApplyOperations<Value>;
};

/** Applies documents. `muster apply` checks the documents of all resources before it sends the first one. */
export type ApplyOperations<Value> = {
  /** Names the item of a document, which must be unique within one command. */
  titleOf(value: Value): string;
  /** Reads a document for `apply`; absent: `apply` reads it as every command does. */
  read?(document: unknown): ReadDocument<Value>;
  /** Reads the inputs that the documents need from the caller, for example a key, before the command connects. */
  prepare(cli: Cli, documents: readonly PlacedDocument<Value>[], options: ApplyOptions): Promise<CheckDocuments>;
};

/**
 * Checks the documents with the services. `problems` are the problems that the services would report, with positions. `send` sends the documents. It is called
 * only if no resource has a problem, so that a command with a problem changes no object.
 */
export type CheckDocuments = (
  connected: ConnectedCli,
) => Promise<{ readonly problems: readonly DocumentProblem[]; readonly send: () => Promise<ApplyResult> }>;

export type ApplyResult = {
  readonly code: ExitCode;
  /** The records of the finished steps, also after a failure. */
  readonly records: readonly unknown[];
  /** The error of the command after its remaining output; undefined if all steps succeeded. */
  readonly failure?: CommandError | undefined;
};

export type ApplyOptions = {
  /** The file of the key that signs leases. */
  readonly keyFile: string | undefined;
  /** The key to which secrets of leases are sealed; undefined selects the one that the engine reports. */
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
export type WaitOperations<Item extends object> = {
  readonly conditions: readonly string[];
  decide(item: Item, goal: WaitGoal): WaitVerdict;
  /** Reads the next state; absent: `wait` uses `get`. Rejects with the fault `not_found` if the item is deleted. */
  next?(connected: ConnectedCli, seen: Item, signal: AbortSignal): Promise<Item>;
  /** Set if `next` answers once the state differs; otherwise `wait` polls. */
  readonly isLongPoll?: true;
  /** Returns a value that differs between two items of one name; absent: a name is never reused. */
  uidOf?(item: Item): string;
  /** Rejects with CommandError if no item of this name ever existed, so that its deletion cannot be awaited. */
  readonly requireHistory?: (connected: ConnectedCli, name: string) => Promise<void>;
  /** Returns whether a deletion meets the goal; absent: only if the goal is the deletion. */
  isMetByDeletion?(
    connected: ConnectedCli,
    seen: { readonly start: Item; readonly last: Item },
    goal: WaitGoal,
  ): Promise<boolean>;
  /** The lines on standard error about a goal that is met in an unexpected way. */
  note?(last: Item): readonly string[];
  /** Describes the state in a sentence. */
  describe(item: Item): string;
  /** The object that `muster explain` explains; absent: the item. */
  explained?(item: Item): { readonly kind: string; readonly name: string };
};

/** Events of one item or of all items, sorted by time. */
export type EventLog<Event extends object = object> = {
  /** Reads events. Events that the caller has not printed may be at any position. */
  read(
    connected: ConnectedCli,
    query: EventQuery,
  ): Promise<{ readonly events: readonly Event[]; readonly isOver: boolean }>;
  /** Set if the log can be read without a name. */
  readonly ofAll?: true;
  /** A follower reads all events again at this interval. */
  readonly pollMs: number;
  /** Calls the listener with the name of each item that has a new event, until disposed. A hint may be lost. */
  readonly onEvent?: (
    connected: ConnectedCli,
    listener: (name: string) => void,
    name?: string,
  ) => Promise<AsyncDisposable>;
  /** Returns a key that differs between any two events. */
  keyOf(event: Event): string;
  none(name: string | undefined): string;
  table(events: readonly Event[], style: TableStyle): readonly string[];
  line(event: Event, style: TableStyle): string;
  record(event: Event): unknown;
};

export type EventQuery = {
  /** Undefined selects the events of all items. */
  readonly name: string | undefined;
  /** Limits the read to these items; undefined selects all that `name` selects. */
  readonly changed?: readonly string[] | undefined;
  /** Limits the read to the newest events. */
  readonly limit?: number | undefined;
  readonly follow: boolean;
};

export type DeleteOptions = {
  readonly force: boolean;
  /** Deletes the set without its pods. */
  readonly keepPods: boolean;
  readonly wait: boolean;
  readonly timeoutMs: number;
  readonly output: Format;
};
