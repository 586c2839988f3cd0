import { makeCli } from "../src/adapters/deps.ts";
import type { CommonOptions, Io } from "../src/cli.ts";
import { explainError } from "../src/explain-error.ts";
import type { Kinds } from "../src/kinds/kinds.ts";
import { buildProgram } from "../src/program.ts";

export type Ended = { readonly code: number; readonly out: readonly string[]; readonly err: readonly string[] };

/** The whole command in this process; nobody sees its terminal, and every file is this text. */
export async function inProcess(
  args: readonly string[],
  world: {
    /** Of a server that is named; without it the local stack is looked for. */
    readonly url?: string;
    readonly token?: string;
    /** Where the local stack says how to reach it. */
    readonly localFile?: string;
    /** The seed of a user, instead of the token. */
    readonly nkey?: string;
    readonly file?: string;
    readonly kinds?: Kinds;
    readonly key?: string;
    readonly keyFile?: string;
    /** What somebody at a terminal says; without it there is none. */
    readonly answer?: string;
  },
): Promise<Ended> {
  const out: string[] = [];
  const err: string[] = [];
  const never = new AbortController().signal;
  const io: Io = {
    out: (lines) => out.push(...lines),
    err: (lines) => err.push(...lines),
    write: (bytes) => {
      out.push(typeof bytes === "string" ? bytes : new TextDecoder().decode(bytes));
      return Promise.resolve();
    },
    draw: () => undefined,
    outStyle: () => ({ columns: undefined, colours: false }),
    errStyle: () => ({ columns: undefined, colours: false, rows: 24, interactive: false }),
    read: () => Promise.resolve(world.file ?? ""),
    ask: (question) => {
      err.push(question);
      return Promise.resolve(world.answer);
    },
    closed: never,
  };
  const config = {
    natsUrl: world.url,
    natsVariables: world.nkey === undefined ? { MUSTER_NATS_TOKEN: world.token } : { MUSTER_NATS_NKEY: world.nkey },
    localFiles: world.localFile === undefined ? [] : [world.localFile],
    key: world.key,
    keyFile: world.keyFile ?? "/nonexistent/key",
    colours: false,
    columns: undefined,
  };
  const interrupts = { first: never, second: never };
  const { kinds } = world;
  const cliOf = (common: () => CommonOptions) =>
    makeCli({ config, io, interrupts, common, ...(kinds !== undefined && { kinds }) });
  try {
    return { code: await buildProgram(cliOf, 80).parse(args), out, err };
  } catch (error) {
    const { exitCode, lines } = explainError(error);
    return { code: exitCode, out, err: [...err, ...lines] };
  }
}
