import type { Command } from "commander";
import { farmCalls } from "../adapters/farm-calls.ts";
import { leaseCalls } from "../adapters/lease-calls.ts";
import { nodeCalls } from "../adapters/node-calls.ts";
import type { Cli } from "../cli.ts";
import { ROLL_CONDITIONS, SET_CONDITIONS } from "../domain/decide-set-wait.ts";
import { LEASE_PHASES } from "../domain/lease.ts";
import { isLeaseWord } from "../domain/lease-document.ts";
import { isRollWord, isSetWord } from "../domain/replica-set.ts";
import type { Link } from "../kinds/kind.ts";
import { EXIT, type ExitCode } from "../domain/decide-exit.ts";
import { planCompletion, type CommandShape, type NameSource, type OptionShape } from "../domain/plan-completion.ts";
import { findKind, findTarget } from "../kinds/kinds.ts";
import { oneOf } from "./target.ts";

export const SHELLS = ["bash", "zsh", "fish"] as const;
export type Shell = (typeof SHELLS)[number];

/** Somebody waits with a finger on the key. */
const ASK_MS = 2000;
/** More names than anybody reads. */
const NAMES_MAX = 500;

/** Where nothing is offered the shell completes file names. */
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

/** `muster completion SHELL`: the script that makes the shell ask `muster __complete`. */
export function completion(cli: Cli, shell: Shell): ExitCode {
  cli.io.out([SCRIPTS[shell]]);
  return EXIT.ok;
}

/** `muster __complete -- WORDS`: what can stand in place of the last word, one a line. Says nothing where the services do not answer. */
export async function complete(cli: Cli, program: Command, line: readonly string[]): Promise<ExitCode> {
  const { words, source } = planCompletion(shapesOf(program), optionsOf(program), line);
  const current = line.at(-1) ?? "";
  const names = source === undefined ? [] : await namesOf(cli, source, current);
  const offers = [...words, ...names.filter((name) => name.startsWith(current)).slice(0, NAMES_MAX)];
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

async function namesOf(cli: Cli, source: NameSource, current: string): Promise<string[]> {
  if (source.names === "wishes") return wishesOf(cli, source.of);
  try {
    await using connected = await cli.connect(AbortSignal.any([cli.interrupts.first, AbortSignal.timeout(ASK_MS)]));
    const { services, link } = connected;
    if (source.names === "pools") return (await services.pools()).map(({ name }) => name);
    if (source.names === "sets" || source.names === "rolls") return await farmNames(link, source.names);
    if (source.names === "leases") return await leaseIds(link);
    if (source.names === "nodes") return (await nodeCalls(link).list(undefined)).map(({ name }) => name);
    if (source.names === "components") {
      const { kind, name } = oneOf(cli, source.of);
      return (await kind.calls(link).get(name)).components.map((component) => component.name);
    }
    const [noun = "", rest] = current.split("/", 2);
    if (source.of === undefined && rest !== undefined) {
      if (isSetWord(noun)) return (await farmNames(link, "sets")).map((name) => `${noun}/${name}`);
      if (isRollWord(noun)) return (await farmNames(link, "rolls")).map((name) => `${noun}/${name}`);
      if (isLeaseWord(noun)) return (await leaseIds(link)).map((id) => `${noun}/${id}`);
      const named = findKind(cli.kinds, noun);
      return named === undefined ? [] : (await named.calls(link).list()).map(({ name }) => `${noun}/${name}`);
    }
    const kind = source.of === undefined ? cli.kinds[0] : findKind(cli.kinds, source.of);
    return kind === undefined ? [] : (await kind.calls(link).list()).map(({ name }) => name);
  } catch {
    // A completion that prints an error would print it into the line that is being typed.
    return [];
  }
}

async function farmNames(link: Link, of: "sets" | "rolls"): Promise<string[]> {
  const farms = farmCalls(link);
  return of === "sets" ? (await farms.list()).map(({ name }) => name) : (await farms.rolls()).map(({ id }) => id);
}

async function leaseIds(link: Link): Promise<string[]> {
  const leases = await leaseCalls(link).list({ user: undefined, type: undefined, phase: undefined });
  return leases.filter(({ phase }) => phase !== "ENDED").map(({ order }) => order.id);
}

/** Of the kind that the word means; a word that means none is told when the command is run. */
function wishesOf(cli: Cli, word: string): string[] {
  const [before = ""] = word.split("/");
  const conditions = isSetWord(before)
    ? SET_CONDITIONS
    : isRollWord(before)
      ? ROLL_CONDITIONS
      : isLeaseWord(before)
        ? LEASE_PHASES
        : (findTarget(cli.kinds, word)?.kind.conditions ?? []);
  return ["delete", ...conditions.map((type) => `condition=${type}`)];
}
