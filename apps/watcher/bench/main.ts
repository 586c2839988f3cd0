/**
 * From the change of a pod to the subscriber: API server -> watcher -> NATS -> subscription, each a process of its own, beside client-node's bare watch of
 * the same changes in the same run. Run: node apps/watcher/bench/main.ts
 */
import { fork, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connectNats } from "@muster/bus";
import { startTestNats, forwardQuickFlag, selectSize, until } from "@muster/testkit";
import { openPodSubscriptions } from "../src/subscriptions/pod-subscriptions.ts";
import type { PodUpdate } from "../src/subscriptions/subscriber.ts";
import type { MemoryFigures } from "./foreign-memory.process.ts";
import { FOREIGN_PODS, makeLatencies, NODES, PODS, PODS_PER_SESSION, type Order } from "./load.ts";

const RATES = selectSize([500, 2000], [500]);
const SECONDS = selectSize(10, 1);
const WARM_UP: Order = { perSecond: 500, changes: selectSize(2000, 200) };
/** Small enough that a subscriber never counts as slow here: every change is to be measured. */
const EVENT_BUFFER_SIZE = 1024;

type Figures = { readonly p50: number; readonly p99: number; readonly count: number };

await using stack = new AsyncDisposableStack();
const directory = await mkdtemp(join(tmpdir(), "muster-bench-"));
stack.defer(() => rm(directory, { recursive: true, force: true }));
const nats = stack.use(await startTestNats());
const api = child("api-server.process.ts", ...forwardQuickFlag());
const { url } = await answer<{ readonly url: string }>(api);
const baseline = child("baseline.process.ts", url, String(NODES + PODS + FOREIGN_PODS + 1));
await once(baseline, "message");
const bus = stack.use(await connectNats({ url: nats.url, token: nats.token, name: "bench" }));
const pods = stack.use(await openPodSubscriptions(bus.connection, { eventBufferSize: EVENT_BUFFER_SIZE }));
const latencies = makeLatencies();
const known = new Set<string>();
let missed = 0;
for (let session = 0; session < PODS / PODS_PER_SESSION; session += 1) {
  void read(pods.subscribe({ kind: "session", id: `session-${session}` }));
}
const watcher = await startWatcher();
await until("every pod is published", () => known.size === PODS, { timeoutMs: 60_000 });
await measure(WARM_UP);

console.log(
  `${PODS} pods of ${PODS / PODS_PER_SESSION} sessions and ${FOREIGN_PODS} foreign pods on ${NODES} nodes, ${SECONDS} s each; ms from the change to the callback`,
);
for (const perSecond of RATES) report(perSecond, await measure({ perSecond, changes: perSecond * SECONDS }));
if (missed > 0) console.log(`${missed} changes were replaced before they were written`);
reportMemory(await answer<MemoryFigures>(child("foreign-memory.process.ts", ...forwardQuickFlag())));

type Measured = {
  readonly made: number;
  readonly tookMs: number;
  readonly bare: Figures;
  readonly published: Figures;
  /** Microseconds of the processor for a change, foreign ones included: client-node and the watcher. NaN where the system does not report it. */
  readonly cost: { readonly bare: number; readonly watcher: number };
};

async function measure(order: Order): Promise<Measured> {
  latencies.take();
  baseline.send("take");
  await once(baseline, "message");
  const before = { bare: await cpuMs(baseline), watcher: await cpuMs(watcher) };
  api.send(order);
  const { made, tookMs } = await answer<{ readonly made: number; readonly tookMs: number }>(api);
  let counted = -1;
  // A change that another one of its pod replaces before the write is not published, so the number of writes is unknown.
  await until(
    "nothing more comes",
    () => {
      const quiet = latencies.count === counted;
      counted = latencies.count;
      return quiet;
    },
    { everyMs: 2000, timeoutMs: 60_000 },
  );
  baseline.send("take");
  const bare = await answer<Figures>(baseline);
  const cost = {
    bare: (((await cpuMs(baseline)) - before.bare) * 1000) / (2 * made),
    watcher: (((await cpuMs(watcher)) - before.watcher) * 1000) / (2 * made),
  };
  return { made, tookMs, bare, published: latencies.take(), cost };
}

function report(perSecond: number, { made, tookMs, bare, published, cost }: Measured): void {
  const ms = (value: number): string => `${value.toFixed(2)} ms`;
  const ratio = (one: number, other: number): string => `ratio ${(one / other).toFixed(1)}`;
  console.log(
    `${perSecond} changes a second, and as many of foreign pods: ${made} made at ${Math.round((made / tookMs) * 1000)}/s, ${published.count} published`,
  );
  for (const part of ["p50", "p99"] as const)
    console.log(
      `  ${part}  bare watch ${ms(bare[part])}  subscription ${ms(published[part])}  ${ratio(published[part], bare[part])}`,
    );
  if (Number.isNaN(cost.watcher)) return;
  const [one, other] = [Math.round(cost.bare), Math.round(cost.watcher)];
  console.log(`  processor a change  bare watch ${one} us  watcher ${other} us  ${ratio(cost.watcher, cost.bare)}`);
}

function reportMemory({ pods, before, after, sumMs }: MemoryFigures): void {
  const mib = (value: number): string => `${value.toFixed(0)} MiB`;
  const bytes = Math.round(((after.heapMib - before.heapMib) * 2 ** 20) / pods);
  console.log(
    `${pods} foreign pods in the cache: ${bytes} bytes a pod; the sum of each node's use takes ${sumMs.toFixed(0)} ms`,
  );
  console.log(`  heap     before ${mib(before.heapMib)}  after ${mib(after.heapMib)}`);
  console.log(`  process  before ${mib(before.processMib)}  after ${mib(after.processMib)}`);
}

/** Processor time of a process so far, where the system has it in /proc: a hundredth of a second a tick. */
async function cpuMs({ pid = 0 }: ChildProcess): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11] ?? Number.NaN) + Number(fields[12] ?? Number.NaN)) * 10;
}

async function read(updates: AsyncIterable<PodUpdate>): Promise<void> {
  for await (const each of updates) {
    if (each.kind === "overflowed") missed += each.missed;
    else if (each.kind === "changed") {
      latencies.add(each.event.podIp);
      known.add(`${each.event.owner.id}.${each.event.pod}`);
    } else for (const { owner, pod } of each.pods) known.add(`${owner.id}.${pod}`);
  }
}

async function startWatcher(): Promise<ChildProcess> {
  const kubeconfig = join(directory, "kubeconfig.json");
  const config = {
    "current-context": "bench",
    contexts: [{ name: "bench", context: { cluster: "bench", user: "bench" } }],
    clusters: [{ name: "bench", cluster: { server: url, "insecure-skip-tls-verify": true } }],
    users: [{ name: "bench", user: { token: "bench" } }],
  };
  await writeFile(kubeconfig, JSON.stringify(config));
  const started = spawn(process.execPath, [new URL("../src/main.ts", import.meta.url).pathname], {
    env: {
      PATH: process.env["PATH"],
      MUSTER_NATS_URL: nats.url,
      MUSTER_NATS_TOKEN: nats.token,
      MUSTER_KUBECONFIG: kubeconfig,
      MUSTER_HTTP_ADDR: "127.0.0.1:0",
    },
    stdio: "ignore",
  });
  stack.defer(() => end(started));
  return started;
}

function child(file: string, ...options: readonly string[]): ChildProcess {
  const process = fork(new URL(file, import.meta.url), options, {
    execArgv: ["--expose-gc"],
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
  stack.defer(() => end(process));
  return process;
}

async function end(process: ChildProcess): Promise<void> {
  if (process.exitCode !== null || process.signalCode !== null) return;
  process.kill("SIGKILL");
  await once(process, "exit");
}

async function answer<Answer>(process: ChildProcess): Promise<Answer> {
  const [message] = (await once(process, "message")) as [Answer];
  return message;
}
