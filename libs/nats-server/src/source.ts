import { execFile } from "node:child_process";
import { access, constants } from "node:fs/promises";
import { delimiter, isAbsolute, join } from "node:path";
import { promisify } from "node:util";

export type Environment = Readonly<Record<string, string | undefined>>;

/** A way to get a nats-server that is not on this machine yet. */
export type ProgramSource = {
  /** For people: its action. */
  readonly name: string;
  /** Describes its usual duration in progress lines. */
  readonly takes: string;
  /** Puts the binary somewhere below the directory, which is empty, and returns its path. Rejects with the reason why it cannot. */
  readonly fetch: (context: SourceContext) => Promise<string>;
};

export type SourceContext = { readonly directory: string; readonly env: Environment; readonly signal: AbortSignal };

const execute = promisify(execFile);
const MAX_OUTPUT_BYTES = 16 * 1024 * 1024;

/** Runs a program to its end; rejects with the last lines of its output. */
export async function runProgram(
  program: string,
  args: readonly string[],
  options: {
    readonly env: Environment;
    readonly signal: AbortSignal;
    readonly cwd?: string;
  },
): Promise<string> {
  try {
    const { stdout } = await execute(program, args, { ...options, killSignal: "SIGINT", maxBuffer: MAX_OUTPUT_BYTES });
    return stdout;
  } catch (error) {
    if (options.signal.aborted) throw options.signal.reason;
    const said = error instanceof Error && "stderr" in error ? String(error.stderr).trim() : "";
    throw new Error(said === "" ? `${program} failed` : said.split("\n").slice(-3).join(" | "), { cause: error });
  }
}

/** Finds all executable files of this name in the directories of PATH, in order. */
export async function findOnPath(name: string, env: Environment): Promise<string[]> {
  const found: string[] = [];
  for (const directory of (env["PATH"] ?? "").split(delimiter)) {
    if (!isAbsolute(directory)) continue;
    const path = join(directory, name);
    if (await isExecutable(path)) found.push(path);
  }
  return found;
}

export function isExecutable(path: string): Promise<boolean> {
  return access(path, constants.X_OK).then(
    () => true,
    () => false,
  );
}
