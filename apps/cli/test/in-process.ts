import { createReadStream } from "node:fs";
import { Readable } from "node:stream";
import { readText } from "../src/adapters/terminal.ts";
import type { TerminalIo } from "../src/cli.ts";
import { readConfig, type Variables } from "../src/config.ts";
import type { Resources } from "../src/kinds/resources.ts";
import { runCommand } from "../src/run.ts";

/** A command that runs in this process or in a separate one. */
export type RunningCommand = {
  readonly stdout: () => string;
  readonly stderr: () => string;
  readonly ended: Promise<{ readonly code: number | null; readonly stdout: string; readonly stderr: string }>;
  /** Sends Ctrl-C. */
  interrupt(): void;
};

export type Ended = { readonly code: number; readonly out: readonly string[]; readonly err: readonly string[] };

type World = {
  readonly env: Variables;
  readonly resources?: Resources;
  /** The text of standard input. */
  readonly input?: string;
  /** The text of every file; undefined: the real files. */
  readonly file?: string;
  /** The answer of a user at a terminal; undefined: no terminal. */
  readonly answer?: string;
};

/** Runs the whole command in this process and captures its output. */
export function startCommand(
  args: readonly string[],
  world: World,
): RunningCommand & { readonly lines: Promise<Ended> } {
  let stdout = "";
  let stderr = "";
  const out: string[] = [];
  const err: string[] = [];
  const first = new AbortController();
  const second = new AbortController();
  const linesOf = (lines: readonly string[]): string => lines.map((line) => `${line}\n`).join("");
  const io: TerminalIo = {
    out: (lines) => {
      out.push(...lines);
      stdout += linesOf(lines);
    },
    err: (lines) => {
      err.push(...lines);
      stderr += linesOf(lines);
    },
    write: (bytes) => {
      const text = typeof bytes === "string" ? bytes : new TextDecoder().decode(bytes);
      out.push(text);
      stdout += text;
      return Promise.resolve();
    },
    draw: () => undefined,
    outStyle: () => ({ columns: undefined, colours: false }),
    errStyle: () => ({ columns: undefined, colours: false, rows: 24, interactive: false }),
    read: (path, maxBytes) => {
      if (world.file !== undefined) return Promise.resolve(world.file);
      const stream = path === "-" ? Readable.from([Buffer.from(world.input ?? "")]) : createReadStream(path);
      return readText(stream, path, maxBytes);
    },
    ask: (question) => {
      io.err([question]);
      return Promise.resolve(world.answer);
    },
    closed: new AbortController().signal,
  };
  const config = readConfig(world.env, {
    localFiles: [],
    keyFile: "/nonexistent/key",
    contextFile: "/nonexistent/config.yaml",
  });
  const interrupts = { first: first.signal, second: second.signal };
  const { resources } = world;
  const ended = runCommand({ args, config, io, interrupts, ...(resources !== undefined && { resources }) });
  return {
    stdout: () => stdout,
    stderr: () => stderr,
    ended: ended.then((code) => ({ code, stdout, stderr })),
    lines: ended.then((code) => ({ code, out, err })),
    interrupt: () => {
      if (first.signal.aborted) second.abort();
      else first.abort();
    },
  };
}

/** Runs the command until its end; every file has the same text. */
export function inProcess(
  args: readonly string[],
  world: {
    /** The address of NATS or of a gateway; undefined means that the command looks for the local stack. */
    readonly url?: string;
    readonly token?: string;
    /** The file of the local stack. */
    readonly localFile?: string;
    /** The seed of a user, instead of the token. */
    readonly nkey?: string;
    readonly file?: string;
    readonly resources?: Resources;
    readonly key?: string;
    readonly keyFile?: string;
    readonly answer?: string;
  },
): Promise<Ended> {
  const { url, token, localFile, nkey, key, keyFile, file = "", ...rest } = world;
  const access =
    url?.startsWith("http") === true
      ? { MUSTER_SERVER: url, MUSTER_TOKEN: token }
      : { MUSTER_NATS_URL: url, ...(nkey === undefined ? { MUSTER_NATS_TOKEN: token } : { MUSTER_NATS_NKEY: nkey }) };
  const env = {
    ...access,
    MUSTER_LOCAL_FILE: localFile,
    MUSTER_KEY: key,
    MUSTER_KEY_FILE: keyFile,
  };
  return startCommand(args, { env, file, ...rest }).lines;
}
