import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { muster } from "@muster/proto";
import { selectSize } from "@muster/testkit";
import { benchStack, computePercentile, type BenchStack, type Spec } from "./bench-stack.ts";

const ROUNDS = selectSize(20, 2);
const { ComponentKind } = muster.session.v1;

/** Workers run until SIGTERM; the driver prints its start time. */
const WORKER = "process.on('SIGTERM', () => process.exit(0)); setInterval(() => {}, 1e6)";
const DRIVER = "console.log(JSON.stringify({ startedAtMs: Date.now() }))";

/** Measures from submit to the last started process: a session of two workers and a driver, and the same three processes started directly. */
export async function overhead(): Promise<void> {
  await using world = await benchStack({ pools: { drivers: 1, workers: 2 }, simulated: false });
  const direct: number[] = [];
  const session: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    direct.push(await startDirectly());
    session.push(await runSession(world, `overhead-${round}`));
  }
  console.log(`overhead: submit to last process started, ${ROUNDS} rounds, milliseconds`);
  report("processes by hand", direct);
  report("session", session);
  const [directMs, sessionMs] = [computePercentile(direct, 0.5), computePercentile(session, 0.5)];
  console.log(`  a session adds ${(sessionMs - directMs).toFixed(0)} ms, ratio ${(sessionMs / directMs).toFixed(1)}`);
}

function report(title: string, values: readonly number[]): void {
  const [p50, p99] = [0.5, 0.99].map((share) => computePercentile(values, share).toFixed(0));
  console.log(`  ${title.padEnd(18)} p50 ${p50}  p99 ${p99}`);
}

async function startDirectly(): Promise<number> {
  const startMs = Date.now();
  const workers = [0, 1].map(() => spawn(process.execPath, ["-e", WORKER], { stdio: "ignore" }));
  await Promise.all(workers.map((worker) => once(worker, "spawn")));
  const driver = spawn(process.execPath, ["-e", DRIVER], { stdio: ["ignore", "pipe", "ignore"] });
  const { startedAtMs } = JSON.parse(await text(driver.stdout)) as { startedAtMs: number };
  for (const worker of workers) worker.kill("SIGKILL");
  return startedAtMs - startMs;
}

async function runSession({ sessions }: BenchStack, name: string): Promise<number> {
  const startMs = Date.now();
  await sessions.submitSession({ requestId: name, name, spec: spec() });
  for (let revision = 0; ;) {
    const { session } = await sessions.watchSession(
      { name, afterRevision: revision, waitMs: 20_000 },
      { timeoutMs: 30_000 },
    );
    revision = session?.revision ?? 0;
    if ((session?.finishedAtMs ?? 0) === 0) continue;
    const { startedAtMs } = JSON.parse(session?.resultJson ?? "") as { startedAtMs: number };
    return startedAtMs - startMs;
  }
}

function spec(): Spec {
  const component = (name: string, kind: muster.session.v1.ComponentKind, program: string) => ({
    name,
    kind,
    pool: kind === ComponentKind.COMPONENT_KIND_DRIVER ? "drivers" : "workers",
    command: ["node", "-e", program],
  });
  return {
    components: [
      component("server", ComponentKind.COMPONENT_KIND_SERVER, WORKER),
      component("client", ComponentKind.COMPONENT_KIND_CLIENT, WORKER),
      component("driver", ComponentKind.COMPONENT_KIND_DRIVER, DRIVER),
    ],
    killAfterMs: 1000,
  };
}
