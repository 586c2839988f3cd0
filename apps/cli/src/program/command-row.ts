import { Argument, Option, type Command } from "commander";
import type { ExitCode } from "../domain/decide-exit.ts";
import type { CommandLine } from "../kinds/resources.ts";

/** Exists in types only: what a command reads of an option or an argument. */
declare const VALUE: unique symbol;
type Valued<Value> = { readonly [VALUE]?: () => Value };
type ValueOf<Row> = Row extends Valued<infer Value> ? Value : never;

export type OptionRow<Value> = Option & Valued<Value>;
export type ArgumentRow<Value> = Argument & Valued<Value>;
type Options = Readonly<Record<string, OptionRow<unknown>>>;
type Arguments = readonly ArgumentRow<unknown>[];
type ValuesOf<Rows> = { readonly [Name in keyof Rows]: ValueOf<Rows[Name]> };

/** A command: what it accepts, its help, and what it runs. One without `run` only has subcommands. */
export type CommandRow = {
  readonly name: string;
  readonly alias?: string;
  /** Absent: hidden from help and completion. */
  readonly description?: string;
  readonly arguments?: Arguments;
  /** The command reads each under the name that it has here. */
  readonly options?: Options;
  /** Paragraphs of the help before the examples. */
  readonly text?: string;
  readonly examples?: readonly string[];
  readonly run?: (
    cli: CommandLine,
    values: readonly unknown[],
    options: Readonly<Record<string, unknown>>,
    command: Command,
  ) => Promise<ExitCode>;
  /** Runs where its parent is called without a subcommand. */
  readonly isDefault?: true;
  /** `run` checks the arguments beyond those that it names. */
  readonly hasExcessArguments?: true;
  readonly commands?: readonly CommandRow[];
  /** Words of other tools, each with a hint that names the command for it here. */
  readonly refused?: readonly (readonly [word: string, hint: string])[];
};

/** A row whose `run` gets its arguments and options with their types. */
export function command<
  const Args extends Arguments = readonly [],
  Opts extends Options = Readonly<Record<string, never>>,
>(
  row: Omit<CommandRow, "arguments" | "options" | "run"> & {
    readonly arguments?: Args;
    readonly options?: Opts;
    readonly run: (
      cli: CommandLine,
      values: ValuesOf<Args>,
      options: ValuesOf<Opts>,
      command: Command,
    ) => Promise<ExitCode>;
  },
): CommandRow {
  // The rows say which values commander gives, and its types do not.
  return row as CommandRow;
}

/** A flag such as `--wait`, or a text such as `--to <node>`. */
export function option<Flags extends string>(
  flags: Flags,
  description: string,
): OptionRow<Flags extends `${string}<${string}` ? string | undefined : boolean>;
/** A text that is parsed; `before` is the value so far, of an option that may be given again. */
export function option<Value>(
  flags: string,
  description: string,
  parse: (text: string, before: Value) => Value,
): OptionRow<Value | undefined>;
export function option(flags: string, description: string, parse?: (text: string, before: never) => unknown): Option {
  const made = new Option(flags, description);
  return parse === undefined ? made : made.argParser(parse as (text: string, before: unknown) => unknown);
}

/** One of these words. */
export function choice<Word extends string>(
  flags: string,
  description: string,
  words: readonly Word[],
): OptionRow<Word | undefined> {
  return new Option(flags, description).choices(words);
}

/** The option with a value for lines without it; help shows `shown`, or that value. */
export function withDefault<Value>(
  row: OptionRow<Value>,
  value: NonNullable<Value>,
  shown?: string,
): OptionRow<NonNullable<Value>> {
  return row.default(value, shown) as OptionRow<NonNullable<Value>>;
}

export function required<Value>(row: OptionRow<Value>): OptionRow<NonNullable<Value>> {
  return row.makeOptionMandatory() as OptionRow<NonNullable<Value>>;
}

/** The option, refused beside options with these names. */
export function excluding<Row extends Option>(row: Row, names: readonly string[]): Row {
  return row.conflicts([...names]);
}

/** A text such as `<name>`, one that may be missing such as `[name]`, or all that follow such as `<file...>`. */
export function argument<Form extends string>(
  form: Form,
  description: string,
): ArgumentRow<
  Form extends `${string}...${string}` ? string[] : Form extends `[${string}` ? string | undefined : string
>;
export function argument<Value>(
  form: string,
  description: string,
  parse: (text: string, before: Value | undefined) => Value,
  offered?: readonly string[],
): ArgumentRow<Value>;
/** Help and completion show the words that are `offered`. */
export function argument(
  form: string,
  description: string,
  parse?: (text: string, before: never) => unknown,
  offered: readonly string[] = [],
): Argument {
  const made = new Argument(form, description);
  if (offered.length > 0) made.choices(offered);
  return parse === undefined ? made : made.argParser(parse as (text: string, before: unknown) => unknown);
}
