import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Arguments } from "./arguments.ts";
import { buildStory, countOutcomes, describeFinding } from "./domain/build-report.ts";
import { listUnconfirmedTwins } from "./domain/judge-machines.ts";
import type { PodSeen } from "./domain/observed.ts";
import { describeFault } from "./domain/plan-faults.ts";
import type { JobShape } from "./domain/plan-jobs.ts";
import type { SessionShape } from "./domain/plan-session-shapes.ts";
import { makeProgressLine } from "./progress-line.ts";
import { readLogs } from "./read-logs.ts";
import { planChaos, type ChaosPlan, type ChaosRun, runChaos } from "./run-chaos.ts";

type RunContext = {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
  readonly output: NodeJS.WritableStream;
  readonly terminal: NodeJS.WriteStream;
};

/** The report has this many stories; it only lists further violations. */
const MAX_STORIES = 3;
const MAX_STORY_LINES = 200;

/** Runs the seeds one after another. The exit code is 0 when all rules hold for every seed. */
export async function runSeeds(options: Arguments, context: RunContext): Promise<number> {
  const { output, signal } = context;
  const failed: number[] = [];
  for (let seed = options.seed; seed < options.seed + options.runs && !signal.aborted; seed += 1) {
    const plan = planChaos({ ...options, seed });
    if (options.output === "text") output.write(renderPlan(options, seed, plan));
    else if (options.plan) output.write(`${JSON.stringify({ seed, ...plan })}\n`);
    if (options.plan) continue;
    if (!(await runSeed(options, seed, context))) failed.push(seed);
  }
  if (signal.aborted) return 130;
  if (options.output === "text" && options.runs > 1 && !options.plan) {
    const passed = options.runs - failed.length;
    const which = failed.length === 0 ? "" : `; failed: ${failed.join(", ")}`;
    output.write(`\n${passed} of ${options.runs} seeds passed${which}\n`);
  }
  return failed.length === 0 ? 0 : 1;
}

async function runSeed(options: Arguments, seed: number, context: RunContext): Promise<boolean> {
  const { env, signal, output, terminal } = context;
  const directory = await mkdtemp(join(tmpdir(), "muster-chaos-"));
  const line = makeProgressLine(terminal, seed);
  let keep = options.keep;
  try {
    const run = await runChaos({ ...options, seed, directory, env, signal, onProgress: line.show });
    line.clear();
    const isGood = run.findings.length === 0;
    keep ||= !isGood;
    if (options.output === "json")
      output.write(`${JSON.stringify(toJson(options, seed, run, keep ? directory : ""))}\n`);
    else output.write(await renderRun(options, seed, run, directory));
    return isGood;
  } catch (error) {
    line.clear();
    if (!signal.aborted) throw error;
    return false;
  } finally {
    if (!keep || signal.aborted) await rm(directory, { recursive: true, force: true });
  }
}

function renderPlan(
  { sessions, jobs, faults, apiServer }: Arguments,
  seed: number,
  { shapes, jobs: jobShapes, faults: planned }: ChaosPlan,
): string {
  const cancelled = shapes.filter(({ cancel }) => cancel !== undefined).length;
  return [
    `\nseed ${seed}: ${sessions} sessions, ${jobs} jobs, ${faults} faults, ${apiServer} API server`,
    `sessions: ${countIntents(shapes)}; ${cancelled} of them are cancelled`,
    `jobs: ${countIntents(jobShapes)}`,
    ...jobShapes.map((shape) => `  ${shape.name}  ${describeJob(shape)}`),
    "faults:",
    ...planned.map((fault) => `  ${describeFault(fault)}`),
    "",
  ].join("\n");
}

function countIntents(shapes: readonly { readonly intent: string }[]): string {
  return [...Map.groupBy(shapes, ({ intent }) => intent)].map(([intent, all]) => `${all.length} ${intent}`).join(", ");
}

async function renderRun(options: Arguments, seed: number, run: ChaosRun, directory: string): Promise<string> {
  const { findings, observed, tookMs } = run;
  const outcomes = [...countOutcomes(observed)].map(([outcome, count]) => `${count} ${outcome}`).join(", ");
  const begun = observed.faults.filter(({ fromMs }) => fromMs !== undefined).length;
  const late = listUnconfirmedTwins(observed.pods);
  const unconfirmed =
    late.length === 0 ? "" : `; second pods that were never confirmed: ${late.map(formatPod).join(", ")}`;
  const injected = `${begun} of ${observed.faults.length} faults injected`;
  const summary = `${(tookMs / 1000).toFixed(0)} s, ${injected}; ${outcomes}${unconfirmed}`;
  if (findings.length === 0) return `seed ${seed}: all rules hold (${summary})\n`;
  const names = [...new Set(findings.flatMap(({ work }) => work ?? []))];
  const stories = await Promise.all(
    names.slice(0, MAX_STORIES).map((name) => renderStory(name, run, join(directory, "stack/logs"))),
  );
  return [
    `seed ${seed}: ${findings.length} violations (${summary})`,
    "",
    ...findings.map(describeFinding),
    "",
    ...stories,
    `logs: ${directory}`,
    `repeat: ${formatCommand(options, seed)}`,
    "",
  ].join("\n");
}

function formatPod({ name, uid }: PodSeen): string {
  return `${name} (${uid})`;
}

async function renderStory(name: string, run: ChaosRun, logs: string): Promise<string> {
  const shape = run.plan.shapes.find((each) => each.name === name);
  const job = run.plan.jobs.find((each) => each.name === name);
  const drawn = shape === undefined ? job && describeJob(job) : describeShape(shape);
  const story = [...buildStory(name, run.observed, run.userLog.entries), ...(await readLogs(logs, name))]
    .sort((a, b) => a.atMs - b.atMs)
    .map(({ atMs, source, text }) => `  ${clock(atMs)}  ${source.padEnd(22)}  ${text}`);
  const more = story.length - MAX_STORY_LINES;
  return [
    `story of ${name}: ${drawn ?? ""}`,
    ...story.slice(0, MAX_STORY_LINES),
    ...(more > 0 ? [`  and ${more} more lines`] : []),
    "",
  ].join("\n");
}

function describeShape({ intent, pods, cancel, timeoutMs, queueTimeoutMs }: SessionShape): string {
  const limits = [
    ...(timeoutMs > 0 ? [`${timeoutMs} ms to run`] : []),
    ...(queueTimeoutMs > 0 ? [`${queueTimeoutMs} ms in the queue`] : []),
    ...(cancel === undefined ? [] : [`cancelled ${cancel.afterMs} ms after it is ${cancel.phase}`]),
  ];
  return [intent, `${pods.length} pods`, ...limits].join(", ");
}

function describeJob({
  intent,
  queue,
  types,
  backoffLimit,
  deadlineS,
  cleanPodPolicy,
  ttlS,
  userAction,
}: JobShape): string {
  return [
    intent,
    `in ${queue}`,
    types.map(({ type, replicas, restartPolicy }) => `${replicas} ${type} ${restartPolicy}`).join(" and "),
    `backoffLimit ${backoffLimit}`,
    `cleanPodPolicy ${cleanPodPolicy}`,
    ...(deadlineS === undefined ? [] : [`${deadlineS} s to run`]),
    ...(ttlS === undefined ? [] : [`deleted ${ttlS} s after its end`]),
    ...(userAction === undefined
      ? []
      : [`${userAction.kind} ${userAction.afterMs} ms after it is ${userAction.phase}`]),
  ].join(", ");
}

function formatCommand({ sessions, jobs, faults, apiServer }: Arguments, seed: number): string {
  const server = apiServer === "embedded" ? "" : ` --api-server ${apiServer}`;
  return `npm run chaos -- --seed ${seed} --sessions ${sessions} --jobs ${jobs} --faults ${faults}${server}`;
}

function toJson(options: Arguments, seed: number, run: ChaosRun, directory: string): object {
  const { plan, observed, findings, userLog, tookMs } = run;
  const stories = [...new Set(findings.flatMap(({ work }) => work ?? []))].map((work) => ({
    work,
    story: buildStory(work, observed, userLog.entries),
  }));
  return {
    seed,
    good: findings.length === 0,
    tookMs: Math.round(tookMs),
    outcomes: Object.fromEntries(countOutcomes(observed)),
    findings,
    neverConfirmed: listUnconfirmedTwins(observed.pods).map(formatPod),
    stories,
    plan,
    faults: observed.faults,
    ...(directory !== "" && { directory }),
    again: formatCommand(options, seed),
  };
}

function clock(atMs: number): string {
  return Number.isFinite(atMs) ? new Date(atMs).toISOString().slice(11, 23) : "never       ";
}
