import { createReadStream } from "node:fs";
import { createInterface } from "node:readline";
import { CommandError } from "../command-error.ts";
import type { TerminalIo } from "../cli.ts";
import { EXIT } from "../domain/decide-exit.ts";

/** The size for a terminal that does not report one. */
const SIZE_DEFAULT = { columns: 80, rows: 24 };

/** The real terminal. Colours, widths and redrawing apply only if a terminal shows the output. */
export function makeTerminal(options: { readonly colours: boolean; readonly columns: number | undefined }): TerminalIo {
  const { stdin, stdout, stderr } = process;
  const closed = new AbortController();
  for (const stream of [stdout, stderr]) {
    // A reader that stops reading (`muster logs | head`) is no error.
    stream.on("error", (error: NodeJS.ErrnoException) => {
      if (error.code !== "EPIPE" && !closed.signal.aborted) reportLostOutput(stream, error);
      closed.abort();
    });
  }
  const write = (stream: NodeJS.WriteStream, lines: readonly string[]): void => {
    if (lines.length > 0 && !closed.signal.aborted) stream.write(lines.map((line) => `${line}\n`).join(""));
  };
  return {
    out: (lines) => {
      write(stdout, lines);
    },
    err: (lines) => {
      write(stderr, lines);
    },
    write: (bytes) =>
      new Promise((resolve) => {
        if (closed.signal.aborted) resolve();
        else stdout.write(bytes, () => resolve());
      }),
    draw: (text) => {
      if (!closed.signal.aborted) stderr.write(text);
    },
    outStyle: () => ({
      columns: stdout.isTTY ? (options.columns ?? (stdout.columns || SIZE_DEFAULT.columns)) : undefined,
      colours: options.colours && stdout.isTTY,
    }),
    errStyle: () => ({
      columns: stderr.isTTY ? (options.columns ?? (stderr.columns || SIZE_DEFAULT.columns)) : undefined,
      rows: stderr.rows || SIZE_DEFAULT.rows,
      colours: options.colours && stderr.isTTY,
      interactive: stderr.isTTY,
    }),
    read: (path, maxBytes) => readText(path === "-" ? stdin : createReadStream(path), path, maxBytes),
    ask: (question, signal) =>
      stdin.isTTY && stderr.isTTY ? askOnTerminal(question, signal) : Promise.resolve(undefined),
    closed: closed.signal,
  };
}

/** The command has failed if its output cannot be written, whatever its own exit code is. */
function reportLostOutput(stream: NodeJS.WriteStream, error: NodeJS.ErrnoException): void {
  const reason = error.message.replace(/^\w+: /, "").replace(/, \w+$/, "");
  if (stream === process.stdout) process.stderr.write(`error: writing the output: ${reason}\n`);
  process.once("exit", () => {
    process.exitCode = EXIT.failed;
  });
}

/** Reads the answer without line editing, which would capture Ctrl-C. */
async function askOnTerminal(question: string, signal: AbortSignal): Promise<string> {
  if (signal.aborted) return "";
  const lines = createInterface({ input: process.stdin, output: process.stderr, terminal: false });
  const answered = Promise.withResolvers<string>();
  const leave = (): void => answered.resolve("");
  lines.once("line", answered.resolve).once("close", leave);
  signal.addEventListener("abort", leave, { once: true });
  lines.setPrompt(question);
  lines.prompt();
  try {
    return await answered.promise;
  } finally {
    signal.removeEventListener("abort", leave);
    lines.close();
  }
}

/** Reads at most one byte more than allowed, so that the reader of the text can report the limit. */
export async function readText(stream: AsyncIterable<unknown>, path: string, maxBytes: number): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    for await (const chunk of stream) {
      const bytes = Buffer.from(chunk as Uint8Array);
      chunks.push(bytes);
      size += bytes.length;
      if (size > maxBytes) break;
    }
  } catch (error) {
    const isFolder = error instanceof Error && "code" in error && error.code === "EISDIR";
    // Node repeats the file name at the end of its message.
    const reason = isFolder
      ? "it is a folder; name the files in it"
      : (error instanceof Error ? error.message : String(error)).replace(/, \w+( '.*')?$/, "");
    throw new CommandError(EXIT.usage, `reading ${path}: ${reason}`, { cause: error });
  }
  return new TextDecoder().decode(Buffer.concat(chunks));
}
