import type { ApiServerKind } from "./api-server-process.ts";
import { parseIntegers, parseWords, readOutput, refuseArguments, MAX_SEED } from "./command-line.ts";

export const HELP = `Runs random sessions and jobs on a new stack, injects faults, and checks the outcomes.

  npm run chaos                                      200 sessions, 100 jobs, a random seed
  npm run chaos -- --seed 7                          the sessions, jobs and faults of seed 7
  npm run chaos -- --seed 1 --runs 20                seeds 1 to 20, one after another
  npm run chaos -- --seed 7 --sessions 20            fewer sessions, jobs and faults
  npm run chaos -- --seed 7 --plan                   only print the plan
  npm run chaos -- --seed 7 --api-server real        use a real kube-apiserver (KUBEBUILDER_ASSETS names its folder)

  --seed N          source of the sessions, jobs and faults; printed, so that the run can be repeated; default: random
  --sessions N      number of sessions; default: 200
  --jobs N          number of jobs; default: half the sessions
  --faults N        number of faults; default: one for five sessions and jobs, at least 8
  --runs N          number of seeds, starting at --seed; default: 1
  --api-server KIND embedded or real; default: embedded
  --plan            print sessions, jobs and faults, and run nothing
  --keep            keep the logs of a successful run, too
  -o json           print one JSON document per run

Exit codes: 0 all rules hold; 1 a rule is violated; 2 the arguments are wrong; 130 stopped by Ctrl-C.
`;

export type Arguments = {
  readonly help: boolean;
  readonly plan: boolean;
  readonly keep: boolean;
  readonly output: "text" | "json";
  readonly seed: number;
  readonly runs: number;
  readonly sessions: number;
  readonly jobs: number;
  readonly faults: number;
  readonly apiServer: ApiServerKind;
};

const SESSIONS = 200;
const MAX_WORK = 999;
const MIN_FAULTS = 8;
const SESSIONS_PER_JOB = 2;
const WORK_PER_FAULT = 5;

/** Throws one invalid_request that names every problem. */
export function readArguments(args: readonly string[], randomSeed: number): Arguments {
  const values = parse(args);
  const problems: string[] = [];
  const integer = parseIntegers<"seed" | "runs" | "sessions" | "jobs" | "faults">(values, problems);
  const sessions = integer("sessions", SESSIONS, 1, MAX_WORK);
  const jobs = integer("jobs", Math.round(sessions / SESSIONS_PER_JOB), 0, MAX_WORK);
  const faults = integer("faults", Math.max(MIN_FAULTS, Math.round((sessions + jobs) / WORK_PER_FAULT)), 0, 1000);
  const seed = integer("seed", randomSeed, 0, MAX_SEED);
  const runs = integer("runs", 1, 1, 10_000);
  const output = readOutput(values.output ?? "text", problems);
  const { "api-server": apiServer = "embedded" } = values;
  if (apiServer !== "embedded" && apiServer !== "real")
    problems.push(`--api-server is "${apiServer}"; embedded or real is needed`);
  if (problems.length > 0) refuseArguments(problems.join("; "));
  return {
    help: values.help ?? false,
    plan: values.plan ?? false,
    keep: values.keep ?? false,
    output,
    seed,
    runs,
    sessions,
    jobs,
    faults,
    apiServer: apiServer === "real" ? "real" : "embedded",
  };
}

function parse(args: readonly string[]) {
  const text = { type: "string" } as const;
  const flag = { type: "boolean" } as const;
  return parseWords({
    args: [...args],
    options: {
      seed: text,
      sessions: text,
      jobs: text,
      faults: text,
      runs: text,
      "api-server": text,
      output: { ...text, short: "o" },
      plan: flag,
      keep: flag,
      help: { ...flag, short: "h" },
    },
  }).values;
}
