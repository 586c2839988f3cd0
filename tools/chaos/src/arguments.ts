import type { ApiServerKind } from "./api-server-process.ts";
import { integersOf, parseWords, readOutput, refuseArguments, MAX_SEED } from "./command-line.ts";

export const HELP = `Runs random sessions and jobs on a whole stack of its own while faults hit it, and judges what came of them.

  npm run chaos                                      200 sessions, 100 jobs, a seed of today's luck
  npm run chaos -- --seed 7                          the sessions, jobs and faults of seed 7
  npm run chaos -- --seed 1 --runs 20                seeds 1 to 20, one after another
  npm run chaos -- --seed 7 --sessions 20            fewer sessions, jobs and faults
  npm run chaos -- --seed 7 --plan                   only say what would happen
  npm run chaos -- --seed 7 --api-server real        before a real kube-apiserver (KUBEBUILDER_ASSETS names its folder)

  --seed N          what sessions, jobs and faults are drawn from; printed, so that a run can be made again
  --sessions N      how many sessions, 200
  --jobs N          how many jobs; half as many as sessions
  --faults N        how many faults; one for five sessions and jobs, at least 8
  --runs N          so many seeds from --seed on, 1
  --api-server KIND embedded (the default) or real
  --plan            print sessions, jobs and faults, and run nothing
  --keep            keep the logs also when nothing is wrong
  -o json           one JSON document a run, for programs

Exit code 0: nothing is wrong. 1: something is. 2: the arguments are wrong. 130: stopped by Ctrl-C.
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
const WORKS_MAX = 999;
const FAULTS_LEAST = 8;
const SESSIONS_PER_JOB = 2;
const WORKS_PER_FAULT = 5;

/** Throws one invalid_request that names what is wrong. */
export function readArguments(args: readonly string[], luckySeed: number): Arguments {
  const values = parse(args);
  const problems: string[] = [];
  const integer = integersOf<"seed" | "runs" | "sessions" | "jobs" | "faults">(values, problems);
  const sessions = integer("sessions", SESSIONS, 1, WORKS_MAX);
  const jobs = integer("jobs", Math.round(sessions / SESSIONS_PER_JOB), 0, WORKS_MAX);
  const faults = integer("faults", Math.max(FAULTS_LEAST, Math.round((sessions + jobs) / WORKS_PER_FAULT)), 0, 1000);
  const seed = integer("seed", luckySeed, 0, MAX_SEED);
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
