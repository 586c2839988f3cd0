/** The parts of a command that completion needs. */
export type CommandShape = {
  readonly name: string;
  /** The subcommands, such as `list` of `dead-letters`. */
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

/**
 * Offers outside the command line: names of a resource (by any of its words; undefined selects the first resource), components of work, and conditions to wait
 * for.
 */
export type NameSource =
  | { readonly names: "items"; readonly of: string | undefined }
  | { readonly names: "components" | "conditions"; readonly of: string };

export type Completion = {
  /** The words that begin with the typed text. */
  readonly words: readonly string[];
  /** The source of further offers. */
  readonly source: NameSource | undefined;
};

const NOTHING: Completion = { words: [], source: undefined };

/** Plans the offers for the last word of a line. `line` is the text after `muster`; its last element is still being typed, and may be empty. */
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
  const source = named ? { names: "items" as const, of: undefined } : sourceOf(shape.name, positionals);
  return { ...words(shape.choices, current), source };
}

type Line = {
  readonly command: CommandShape | undefined;
  /** The words after the command's name, without options. */
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
  if (flags.includes("--pool")) return { names: "items", of: "pool" };
  return flags.includes("--for") ? { names: "conditions", of: first } : undefined;
}

/** Maps arguments that name a resource to its word. */
const NAMES = new Map([
  ["node", "node"],
  ["set", "replica-set"],
  ["lease", "lease"],
  ["roll", "roll"],
]);

function sourceOf(argument: string, [first = ""]: readonly string[]): NameSource | undefined {
  if (argument === "component") return { names: "components", of: first };
  if (argument === "name") return { names: "items", of: first === "" ? undefined : first };
  const of = NAMES.get(argument);
  return of === undefined ? undefined : { names: "items", of };
}

function words(choices: readonly string[], current: string): Completion {
  return { words: choices.filter((choice) => choice.startsWith(current)), source: undefined };
}
