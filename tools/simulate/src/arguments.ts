import { parseIntegers, parseWords, readOutput, refuseArguments, MAX_SEED } from "@muster/chaos/command-line";

export const HELP = `Runs the code of the services in one process, in virtual time, injects faults, and checks the invariants.

  npm run simulate                                     100 seeds of 50 sessions, from a random first seed
  npm run simulate -- --seed 7                         the sessions and faults of seed 7
  npm run simulate -- --seed 7 --sessions 200          more sessions, and a longer time of faults
  npm run simulate -- --seed 1 --seeds 1000            seeds 1 to 1000; stops at the first failure
  npm run simulate -- --leases 30                      100 seeds of leases instead
  npm run simulate -- --queues 60                      100 seeds of requests of queues instead
  npm run simulate -- --seed 7 --trace trace.txt       write every step, one per line
  npm run simulate -- --seed 7 --snapshot now.json --at 10s
  npm run simulate -- replay now.json                  print the next step of each service, and its reason

  --seed N          source of the sessions and faults; default: random
  --seeds N         number of seeds, starting at --seed; default: 1 with --seed, otherwise 100
  --sessions N      sessions of each seed; default: 50
  --parts N         owners of parts of machines, beside foreign pods; default: half the sessions; 0: whole machines only
  --leases N        leases of each seed, instead of sessions
  --queues N        requests of teams with queues of each seed, instead of sessions
  --trace FILE      write the trace of the last seed
  --snapshot FILE   write the state of the system at the time of --at
  --at TIME         virtual time of the snapshot: 500ms, 10s, 2m
  -o json           print one JSON document per seed

Exit codes: 0 all rules hold; 1 a rule is violated; 2 the arguments are wrong; 130 stopped by Ctrl-C.
`;

export type Arguments = {
  readonly help: boolean;
  readonly replay: string | undefined;
  readonly output: "text" | "json";
  readonly seed: number;
  readonly seeds: number;
  readonly sessions: number;
  /** Owners of parts of machines. */
  readonly parts: number;
  /** Undefined where sessions are simulated. */
  readonly leases: number | undefined;
  /** Undefined where no requests of queues are simulated. */
  readonly queues: number | undefined;
  readonly trace: string | undefined;
  readonly snapshot: { readonly file: string; readonly atMs: number } | undefined;
};

const SESSIONS = 50;
const MAX_SESSIONS = 999;
const SEEDS = 100;
const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000 };

/** Throws one invalid_request that names every problem. */
export function readArguments(args: readonly string[], randomSeed: number): Arguments {
  const { values, positionals } = parse(args);
  const problems: string[] = [];
  const integer = parseIntegers<"seed" | "seeds" | "sessions" | "parts" | "leases" | "queues">(values, problems);
  const seed = integer("seed", randomSeed, 0, MAX_SEED);
  const seeds = integer("seeds", values.seed === undefined ? SEEDS : 1, 1, 1_000_000);
  const sessions = integer("sessions", SESSIONS, 1, MAX_SESSIONS);
  const parts = integer("parts", Math.floor(sessions / 2), 0, MAX_SESSIONS);
  const leases = values.leases === undefined ? undefined : integer("leases", 1, 1, MAX_SESSIONS);
  const queues = values.queues === undefined ? undefined : integer("queues", 1, 1, MAX_SESSIONS);
  const output = readOutput(values.output ?? "text", problems);
  const { snapshot, at } = values;
  const atMs = at === undefined ? undefined : readTime(at);
  if (at !== undefined && atMs === undefined) problems.push(`--at is "${at}"; a time like 10s is needed`);
  if ((snapshot === undefined) !== (at === undefined)) problems.push("--snapshot and --at belong together");
  const others = [values.sessions, values.parts, snapshot];
  const isAnyGiven = (all: readonly (string | undefined)[]): boolean => all.some((each) => each !== undefined);
  if (leases !== undefined && isAnyGiven([...others, values.queues]))
    problems.push("--leases cannot be combined with --sessions, --parts, --queues or --snapshot");
  if (queues !== undefined && isAnyGiven(others))
    problems.push("--queues cannot be combined with --sessions, --parts or --snapshot");
  const [command, file, ...more] = positionals;
  const isReplay = command === "replay" && file !== undefined && more.length === 0;
  if (command !== undefined && !isReplay) problems.push(`"${positionals.join(" ")}" is not "replay FILE"`);
  if (problems.length > 0) refuseArguments(problems.join("; "));
  return {
    help: values.help ?? false,
    replay: file,
    output,
    seed,
    seeds,
    sessions,
    parts,
    leases,
    queues,
    trace: values.trace,
    snapshot: snapshot === undefined || atMs === undefined ? undefined : { file: snapshot, atMs },
  };
}

function readTime(text: string): number | undefined {
  const [, amount, unit] = /^(\d+)(ms|s|m)$/.exec(text) ?? [];
  const factor = UNITS[unit ?? ""];
  return factor === undefined ? undefined : Number(amount) * factor;
}

function parse(args: readonly string[]) {
  const text = { type: "string" } as const;
  return parseWords({
    args: [...args],
    allowPositionals: true,
    options: {
      seed: text,
      seeds: text,
      sessions: text,
      parts: text,
      leases: text,
      queues: text,
      trace: text,
      snapshot: text,
      at: text,
      output: { ...text, short: "o" },
      help: { type: "boolean", short: "h" },
    },
  });
}
