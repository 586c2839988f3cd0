import { Argument, Option, type Command } from "commander";
import type { ExitCode } from "../domain/decide-exit.ts";
import type { CommandLine } from "../kinds/resources.ts";

/** Exists only in types: the value that a command reads from an option or an argument. */
declare const VALUE: unique symbol;
type Valued<Value> = { readonly [VALUE]?: () => Value };
type ValueOf<Row> = Row extends Valued<infer Value> ? Value : never;

export type OptionRow<Value> = Option & Valued<Value>;
export type ArgumentRow<Value> = Argument & Valued<Value>;
type Options = Readonly<Record<string, OptionRow<unknown>>>;
type Arguments = readonly ArgumentRow<unknown>[];
type ValuesOf<Rows> = { readonly [Name in keyof Rows]: ValueOf<Rows[Name]> };

/** A command: its arguments and options, its help, and its action. One without `run` only has subcommands. */
export type CommandRow = {
  readonly name: string;
  readonly alias?: string;
  /** A command without a description is hidden from help and completion. */
  readonly description?: string;
  readonly arguments?: Arguments;
  /** The command reads each option under its key here. */
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
  /** Runs if its parent is called without a subcommand. */
  readonly isDefault?: true;
  /** Set if `run` itself checks arguments beyond the declared ones. */
  readonly hasExcessArguments?: true;
  readonly commands?: readonly CommandRow[];
  /** Words of other tools, each with a hint that names the command here. */
  readonly refused?: readonly (readonly [word: string, hint: string])[];
};

/** Declares a row whose `run` gets typed arguments and options. */
export function defineCommand<
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
  // The types of commander do not express which values the rows declare.
  return row as CommandRow;
}

/** Declares a flag such as `--wait`, or a text such as `--to <node>`. */
export function option<Flags extends string>(
  flags: Flags,
  description: string,
): OptionRow<Flags extends `${string}<${string}` ? string | undefined : boolean>;
/** Declares an option whose text is parsed; `before` is the value so far of an option that may be repeated. */
export function option<Value>(
  flags: string,
  description: string,
  parse: (text: string, before: Value) => Value,
): OptionRow<Value | undefined>;
export function option(flags: string, description: string, parse?: (text: string, before: never) => unknown): Option {
  const made = new Option(flags, description);
  return parse === undefined ? made : made.argParser(parse as (text: string, before: unknown) => unknown);
}

/** Declares an option that takes one of these words. */
export function defineChoice<Word extends string>(
  flags: string,
  description: string,
  words: readonly Word[],
): OptionRow<Word | undefined> {
  return new Option(flags, description).choices(words);
}

/** Gives the option a default; help shows `shown`, or the default. */
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

/** Makes the option conflict with the named options. */
export function excluding<Row extends Option>(row: Row, names: readonly string[]): Row {
  return row.conflicts([...names]);
}

/** Declares an argument: required (`<name>`), optional (`[name]`) or repeated (`<file...>`). */
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
/** Declares an argument for which help and completion show the `offered` words. */
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
