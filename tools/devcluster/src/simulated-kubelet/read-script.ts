/** The behaviour of a simulated container, read from its command. */
export type Script = {
  /** The image cannot be pulled, so the container never starts. */
  readonly imageMissing: boolean;
  /** Time in ContainerCreating. */
  readonly startMs: number;
  /** Time from its start until it is ready. */
  readonly readyMs: number;
  /** Time after which it ends by itself; undefined: a signal must end it. */
  readonly runMs: number | undefined;
  readonly exitCode: number;
  /** Lines written when it starts to run. */
  readonly print: readonly string[];
  /** Lines written before it ends by itself. */
  readonly printAtEnd: readonly string[];
  /** Time from SIGTERM until its end; undefined: it ignores SIGTERM. */
  readonly termMs: number | undefined;
  readonly termExitCode: number;
  readonly terminationMessage: string | undefined;
};

export type ReadScript =
  { readonly read: true; readonly script: Script } | { readonly read: false; readonly message: string };

export const SIMULATE = "simulate";
const SIGTERM_EXIT_CODE = 143;
const NUMBERS = ["start-ms", "ready-ms", "run-ms", "exit", "term-ms", "term-exit"] as const;
const TEXTS = ["print", "print-at-end", "termination-message"] as const;

/**
 * Reads `["simulate", "--run-ms=500", "--exit=0", ...]`: command and args of a container, with variables replaced. Refuses any other command, so that a
 * real program never counts as simulated.
 */
export function readScript(command: readonly string[]): ReadScript {
  const [program = "", ...flags] = command;
  if (program !== SIMULATE) return refused(`a simulated node runs "${SIMULATE}" alone, and not "${program}"`);
  const numbers = new Map<string, number>();
  const texts = new Map<string, string[]>();
  let ignoresTerm = false;
  let imageMissing = false;
  for (const flag of flags) {
    const [, name = "", , value = ""] = /^--([a-z-]+)(=(.*))?$/s.exec(flag) ?? [];
    if (isOneOf(TEXTS, name)) texts.set(name, [...(texts.get(name) ?? []), value]);
    else if (name === "ignore-term") ignoresTerm = true;
    else if (name === "image-missing") imageMissing = true;
    else if (!isOneOf(NUMBERS, name)) return refused(`${SIMULATE} does not know "${flag}"`);
    else if (/^\d+$/.test(value)) numbers.set(name, Number(value));
    else return refused(`${SIMULATE}: --${name} needs a whole number and not "${value}"`);
  }
  const exitCode = numbers.get("exit") ?? 0;
  const termExitCode = numbers.get("term-exit") ?? SIGTERM_EXIT_CODE;
  if (Math.max(exitCode, termExitCode) > 255) return refused(`${SIMULATE}: an exit code is at most 255`);
  return {
    read: true,
    script: {
      imageMissing,
      startMs: numbers.get("start-ms") ?? 0,
      readyMs: numbers.get("ready-ms") ?? 0,
      runMs: numbers.get("run-ms"),
      exitCode,
      print: texts.get("print") ?? [],
      printAtEnd: texts.get("print-at-end") ?? [],
      termMs: ignoresTerm ? undefined : (numbers.get("term-ms") ?? 0),
      termExitCode,
      terminationMessage: texts.get("termination-message")?.join("\n"),
    },
  };
}

function refused(message: string): ReadScript {
  return { read: false, message };
}

function isOneOf<Name extends string>(names: readonly Name[], name: string): name is Name {
  return names.some((each) => each === name);
}
