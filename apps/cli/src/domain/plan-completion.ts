import { isLeaseWord } from "./lease-document.ts";
import { isRollWord, isSetWord } from "./replica-set.ts";

/** A command as far as completing it needs. */
export type CommandShape = {
  readonly name: string;
  /** What it is divided into: `dead-letters list`. */
  readonly commands?: readonly CommandShape[];
  readonly options: readonly OptionShape[];
  readonly arguments: readonly ArgumentShape[];
};

export type OptionShape = {
  readonly flags: readonly string[];
  readonly takesValue: boolean;
  readonly choices: readonly string[];
};

export type ArgumentShape = { readonly name: string; readonly choices: readonly string[]; readonly variadic: boolean };

/** Names that only the services know: of a kind of work (undefined: the one that is meant where none is named), of pools, of nodes that were made, of replica sets, of rolling updates, of leases, of the components of one; and what one can be waited for. */
export type NameSource =
  | { readonly names: "work"; readonly of: string | undefined }
  | { readonly names: "pools" }
  | { readonly names: "nodes" }
  | { readonly names: "sets" }
  | { readonly names: "rolls" }
  | { readonly names: "leases" }
  | { readonly names: "components" | "wishes"; readonly of: string };

export type Completion = {
  /** What may stand here; the ones that begin with what was typed. */
  readonly words: readonly string[];
  /** Names to be asked for beside the words. */
  readonly source: NameSource | undefined;
};

const NOTHING: Completion = { words: [], source: undefined };

/** What can follow on a command line. `line` is what was typed after `muster`; its last element is the word that is being typed, and may be empty. */
export function planCompletion(
  commands: readonly CommandShape[],
  common: readonly OptionShape[],
  line: readonly string[],
): Completion {
  const current = line.at(-1) ?? "";
  const { command, positionals, open } = readLine(commands, common, line.slice(0, -1));
  if (open !== undefined) return { ...words(open.choices, current), source: sourceOfOption(open, positionals) };
  const options = [...(command?.options ?? []), ...common];
  if (current.startsWith("-")) {
    return words([...options.flatMap(({ flags }) => flags), "--help"], current);
  }
  const next = command === undefined ? commands : (command.commands ?? []);
  if (positionals.length === 0 && next.length > 0) {
    return words(
      next.map(({ name }) => name),
      current,
    );
  }
  if (command === undefined) return NOTHING;
  const { arguments: shapes } = command;
  const shape = shapes[positionals.length] ?? (shapes.at(-1)?.variadic === true ? shapes.at(-1) : undefined);
  if (shape === undefined) return NOTHING;
  const named = shape.name === "resource" && current.includes("/");
  const source = named ? { names: "work" as const, of: undefined } : sourceOf(shape.name, positionals);
  return { ...words(shape.choices, current), source };
}

type Line = {
  readonly command: CommandShape | undefined;
  /** What stands after the command's name, options left out. */
  readonly positionals: readonly string[];
  /** The option whose value comes next. */
  readonly open: OptionShape | undefined;
};

function readLine(commands: readonly CommandShape[], common: readonly OptionShape[], before: readonly string[]): Line {
  let command: CommandShape | undefined;
  let open: OptionShape | undefined;
  const positionals: string[] = [];
  for (const word of before) {
    if (open !== undefined) {
      open = undefined;
      continue;
    }
    if (word.startsWith("-") && word !== "-") {
      const option = [...(command?.options ?? []), ...common].find(({ flags }) => flags.includes(word));
      if (option?.takesValue === true) open = option;
      continue;
    }
    const here: readonly CommandShape[] = command === undefined ? commands : (command.commands ?? []);
    const named: CommandShape | undefined =
      positionals.length === 0 ? here.find(({ name }) => name === word) : undefined;
    if (named === undefined) positionals.push(word);
    else command = named;
  }
  return { command, positionals, open };
}

function sourceOfOption({ flags }: OptionShape, [first = ""]: readonly string[]): NameSource | undefined {
  if (flags.includes("--pool")) return { names: "pools" };
  return flags.includes("--for") ? { names: "wishes", of: first } : undefined;
}

function sourceOf(argument: string, positionals: readonly string[]): NameSource | undefined {
  const [first = ""] = positionals;
  if (argument === "component") return { names: "components", of: first };
  if (argument === "node") return { names: "nodes" };
  if (argument === "set") return { names: "sets" };
  if (argument === "lease") return { names: "leases" };
  if (argument === "roll") return { names: "rolls" };
  if (argument !== "name") return undefined;
  if (first.startsWith("pool")) return { names: "pools" };
  if (isSetWord(first)) return { names: "sets" };
  if (isRollWord(first)) return { names: "rolls" };
  if (isLeaseWord(first)) return { names: "leases" };
  return { names: "work", of: first === "" ? undefined : first };
}

function words(choices: readonly string[], current: string): Completion {
  return { words: choices.filter((choice) => choice.startsWith(current)), source: undefined };
}
