import type { Command } from "commander";
import { EXIT, type ExitCode } from "../domain/decide-exit.ts";
import { planCompletion, type CommandShape, type NameSource, type OptionShape } from "../domain/plan-completion.ts";
import { findResource, splitTarget, type CommandLine } from "../kinds/resources.ts";
import { readWorkTarget } from "./find-work.ts";

export const SHELLS = ["bash", "zsh", "fish"] as const;
export type Shell = (typeof SHELLS)[number];

/** The timeout is short, because the user waits for the offers at the prompt. */
const TIMEOUT_MS = 2000;
/** More names would not help a reader. */
const MAX_NAMES = 500;

/** If the command offers nothing, the shell completes file names. */
const SCRIPTS: Readonly<Record<Shell, string>> = {
  bash: `_muster() {
  local IFS=$'\\n'
  COMPREPLY=($(muster __complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _muster muster`,
  zsh: `#compdef muster
_muster() {
  local -a offers
  offers=("\${(@f)$(muster __complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ -n "\${offers[1]}" ]]; then compadd -a offers; else _files; fi
}
compdef _muster muster`,
  fish: `function __muster_offers
  set -l typed (commandline -opc) (commandline -ct)
  muster __complete -- $typed[2..] 2>/dev/null
end
complete -c muster -a '(__muster_offers)'`,
};

/** `muster completion SHELL`: prints the script with which the shell calls `muster __complete`. */
export function printCompletion(cli: CommandLine, shell: Shell): ExitCode {
  cli.io.out([SCRIPTS[shell]]);
  return EXIT.ok;
}

/** `muster __complete -- WORDS`: prints the offers for the last word, one per line. Prints nothing if the services do not answer. */
export async function completeLine(cli: CommandLine, program: Command, line: readonly string[]): Promise<ExitCode> {
  const { words, source } = planCompletion(shapesOf(program), optionsOf(program), line);
  const current = line.at(-1) ?? "";
  const names = source === undefined ? [] : await namesOf(cli, source, current);
  const offers = [...words, ...names.filter((name) => name.startsWith(current)).slice(0, MAX_NAMES)];
  cli.io.out(offers);
  return EXIT.ok;
}

function shapesOf(program: Command): CommandShape[] {
  const visible = new Set(program.createHelp().visibleCommands(program));
  return program.commands
    .filter((command) => visible.has(command))
    .map((command) => ({
      name: command.name(),
      commands: shapesOf(command),
      options: optionsOf(command),
      arguments: command.registeredArguments.map((argument) => ({
        name: argument.name(),
        choices: argument.argChoices ?? [],
        variadic: argument.variadic,
      })),
    }));
}

function optionsOf(command: Command): OptionShape[] {
  return command.options.map((option) => ({
    flags: [option.long, option.short].filter((flag) => flag !== undefined),
    takesValue: option.required || option.optional,
    choices: option.argChoices ?? [],
  }));
}

async function namesOf(cli: CommandLine, source: NameSource, current: string): Promise<string[]> {
  if (source.names === "conditions") return goalsOf(cli, source.of);
  try {
    await using connected = await cli.connect(AbortSignal.any([cli.interrupts.first, AbortSignal.timeout(TIMEOUT_MS)]));
    if (source.names === "components") {
      const { kind, name } = readWorkTarget(cli, source.of);
      return (await kind.calls(connected.link).get(name)).components.map((component) => component.name);
    }
    const isTarget = source.of === undefined && current.includes("/");
    const word = isTarget ? splitTarget(current).word : source.of;
    const resource = word === undefined ? cli.resources[0] : findResource(cli.resources, word);
    const items = (await resource?.list(connected)) ?? [];
    const names = items
      .filter((item) => resource?.isOffered?.(item) !== false)
      .map((item) => resource?.nameOf(item) ?? "");
    return isTarget ? names.map((name) => `${word ?? ""}/${name}`) : names;
  } catch {
    // An error would appear in the line that the user types.
    return [];
  }
}

/** Returns the goals of the named kind. An unknown kind has none, and the command itself refuses it. */
function goalsOf({ resources }: CommandLine, target: string): string[] {
  const { word } = splitTarget(target);
  const resource = target.includes("/") ? findResource(resources, word) : resources[0];
  return ["delete", ...(resource?.waiting?.conditions ?? []).map((type) => `condition=${type}`)];
}
