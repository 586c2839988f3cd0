import { muster } from "@muster/proto";
import { selectSize } from "@muster/testkit";
import { benchStack, computePercentile, type BenchStack, type Spec } from "./bench-stack.ts";

const SESSIONS = selectSize(1000, 20);
const DRIVERS = selectSize(100, 10);
const WORKERS = selectSize(400, 40);
/** Each session uses one driver and two workers, so drivers are scarce. */
const WORKERS_EACH = 2;
const RUN_MS = 1000;
const CONCURRENT_SUBMITS = 64;
const GIVE_UP_MS = 900_000;
/** Maximum delay until the end is detected. */
const POLL_MS = 250;
/** Sessions in one list. */
const PAGE = 20;

const { ComponentKind, SessionEventKind } = muster.session.v1;
type Session = muster.session.v1.Session.$Properties;

/** Submits a thousand sessions together to five hundred simulated nodes: no session starves, and memory does not grow. */
export async function crowd(): Promise<void> {
  await using world = await benchStack({ pools: { drivers: DRIVERS, workers: WORKERS }, simulated: true });
  const before = await world.memory();
  const usedBefore = await world.processorTime();
  const startMs = performance.now();
  await submitAll(world);
  const submittedMs = performance.now() - startMs;
  const peak = new Map(before);
  const ended = await followAll(world, startMs, peak);
  const wholeMs = performance.now() - startMs;
  const after = await world.memory();
  const used = await world.processorTime();
  const rounds = Math.ceil(SESSIONS / Math.min(DRIVERS, Math.floor(WORKERS / WORKERS_EACH)));
  console.log(`crowd: ${SESSIONS} sessions of ${1 + WORKERS_EACH} pods over ${DRIVERS + WORKERS} simulated nodes`);
  console.log(
    `  submitted in ${seconds(submittedMs)}, all finished after ${seconds(wholeMs)}: ${((SESSIONS * 1000) / wholeMs).toFixed(1)} sessions per second`,
  );
  console.log(
    `  the machines alone need ${seconds(rounds * RUN_MS)} (${rounds} rounds of ${RUN_MS} ms): ratio ${((rounds * RUN_MS) / wholeMs).toFixed(2)}`,
  );
  reportOrder(ended);
  console.log("  memory, MiB:            before    peak   after   processor, s");
  for (const [name, mib] of before) {
    const row = [mib, peak.get(name) ?? 0, after.get(name) ?? 0].map((value) => value.toFixed(0).padStart(8)).join("");
    const seconds = (used.get(name) ?? 0) - (usedBefore.get(name) ?? 0);
    console.log(`  ${name.padEnd(20)} ${row} ${seconds.toFixed(1).padStart(14)}`);
  }
}

async function submitAll({ sessions }: BenchStack): Promise<void> {
  const names = Array.from({ length: SESSIONS }, (_, index) => buildName(index)).values();
  const lane = async (): Promise<void> => {
    for (const name of names) {
      await sessions.submitSession({ requestId: name, name, spec: spec() }, { timeoutMs: 60_000 });
    }
  };
  await Promise.all(Array.from({ length: CONCURRENT_SUBMITS }, lane));
}

/** Polls until all sessions have finished, and records the peak memory of each process. */
async function followAll(world: BenchStack, startMs: number, peak: Map<string, number>): Promise<Session[]> {
  const all: Session[] = [];
  let next = "";
  for (;;) {
    for (const [name, mib] of await world.memory()) peak.set(name, Math.max(mib, peak.get(name) ?? 0));
    next = await takeFinished(world, next, all);
    if (process.stderr.isTTY) process.stderr.write(`\r  ${all.length} of ${SESSIONS} finished `);
    if (all.length === SESSIONS) return all;
    if (performance.now() - startMs > GIVE_UP_MS)
      throw new Error(`${SESSIONS - all.length} sessions have not finished after ${seconds(GIVE_UP_MS)}`);
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

/**
 * Adds the next pages while all their sessions have finished, and returns where the following page begins. Sessions finish roughly in name order, so a poll
 * reads one record while the first session of its page runs. A list of all would cost the session-controller more than the sessions do.
 */
async function takeFinished({ sessions }: BenchStack, from: string, all: Session[]): Promise<string> {
  let next = from;
  do {
    const [first] = (await sessions.listSessions({ continue: next, limit: 1 }, { timeoutMs: 60_000 })).sessions;
    if (first?.finishedAtMs === 0) return next;
    const page = await sessions.listSessions({ continue: next, limit: PAGE }, { timeoutMs: 60_000 });
    if (page.sessions.some(({ finishedAtMs }) => finishedAtMs === 0)) return next;
    all.push(...page.sessions);
    next = page.continue;
  } while (next !== "");
  return next;
}

/** Reports fairness: sessions of one shape are granted machines in the order of submission, so it measures the distance between both positions. */
function reportOrder(ended: readonly Session[]): void {
  const at = ({ events }: Session, kind: number): number =>
    new Map(events?.map((event) => [Number(event.kind), event.atMs ?? 0])).get(kind) ?? 0;
  const { SESSION_EVENT_KIND_ACCEPT: accept, SESSION_EVENT_KIND_DONE: done } = SessionEventKind;
  const submitted = [...ended].sort((a, b) => (a.createdAtMs ?? 0) - (b.createdAtMs ?? 0));
  const accepted = [...ended].sort((a, b) => at(a, accept) - at(b, accept));
  const place = new Map(accepted.map(({ name }, index) => [name, index]));
  const moved = submitted.map(({ name }, index) => Math.abs((place.get(name) ?? 0) - index));
  const waits = ended.map((session) => at(session, accept) - (session.createdAtMs ?? 0));
  const count = ended.filter((session) => at(session, done) > 0).length;
  console.log(
    `  ${count} DONE; in the queue p50 ${seconds(computePercentile(waits, 0.5))}, longest ${seconds(computePercentile(waits, 1))}`,
  );
  console.log(
    `  places between order of submission and of start: p50 ${computePercentile(moved, 0.5)}, max ${computePercentile(moved, 1)}`,
  );
}

function buildName(index: number): string {
  return `crowd-${String(index).padStart(4, "0")}`;
}

function spec(): Spec {
  const component = (name: string, kind: muster.session.v1.ComponentKind, pool: string, flags: readonly string[]) => ({
    name,
    kind,
    pool,
    command: ["simulate", ...flags],
  });
  return {
    components: [
      component("server", ComponentKind.COMPONENT_KIND_SERVER, "workers", []),
      component("client", ComponentKind.COMPONENT_KIND_CLIENT, "workers", []),
      component("driver", ComponentKind.COMPONENT_KIND_DRIVER, "drivers", [
        `--run-ms=${RUN_MS}`,
        '--print={"ok":true}',
      ]),
    ],
    killAfterMs: 1000,
  };
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
