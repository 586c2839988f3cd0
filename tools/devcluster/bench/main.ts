/** What the embedded API server costs beside a bare node server that handles the same bytes, in turns in one run. Run: npx nx run devcluster:bench */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { sized } from "@muster/testkit";
import { type Connection, connectTo, middle, rateOf, type Server } from "./load.ts";

const PODS = sized(5_000, 200);
const WATCHERS = sized(500, 20);
const IN_FLIGHT = 32;
const PATCHES = sized(1000, 100);
const ROUNDS = sized(5, 1);
const PATH = "/api/v1/namespaces/default/pods";

type Started = AsyncDisposable & {
  readonly connection: Connection;
  readonly server: Server;
  /** Resident memory in MiB. */
  memory(): Promise<number>;
};

const directory = await mkdtemp(join(tmpdir(), "muster-devcluster-bench-"));
try {
  await using bare = await start("bare.process.ts");
  await using ours = await start("api-server.process.ts", join(directory, "memory"));
  await using kept = await start("api-server.process.ts", join(directory, "disk"), "persist");
  await measureCreates(bare, ours, kept);
  await measurePatches(bare, ours, kept);
  await measureList(bare, ours);
  await measureFanOut(bare, ours);
} finally {
  await rm(directory, { recursive: true, force: true });
}

async function measureCreates(bare: Started, ours: Started, kept: Started): Promise<void> {
  const size = await ours.connection.call({ method: "POST", path: PATH, body: pod("first") });
  const rounds: number[][] = [];
  const perRound = PODS / ROUNDS;
  for (let round = 0; round < ROUNDS; round++) {
    const name = (index: number): string => `pod-${round * perRound + index}`;
    const post = ({ connection }: Started) =>
      rateOf(perRound, IN_FLIGHT, (index) => connection.call({ method: "POST", path: PATH, body: pod(name(index)) }));
    const bareRate = await rateOf(perRound, IN_FLIGHT, (index) =>
      bare.connection.call({ method: "POST", path: `/?bytes=${size}`, body: pod(name(index)) }),
    );
    rounds.push([bareRate, await post(ours), await post(kept)]);
  }
  report("creates of pods", ["bare", "in memory", "on disk"], rounds);
  console.log(
    `memory with ${PODS} pods: ${Math.round(await ours.memory())} MiB, bare ${Math.round(await bare.memory())} MiB`,
  );
}

async function measurePatches(bare: Started, ours: Started, kept: Started): Promise<void> {
  const body = (turn: number): string => JSON.stringify({ status: { phase: "Running", message: `turn ${turn}` } });
  const type = "application/strategic-merge-patch+json";
  const size = await ours.connection.call({ method: "PATCH", path: `${PATH}/pod-0/status`, body: body(-1), type });
  const rounds: number[][] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const patch = ({ connection }: Started) =>
      rateOf(PATCHES, IN_FLIGHT, (index) =>
        connection.call({ method: "PATCH", path: `${PATH}/pod-${index}/status`, body: body(round), type }),
      );
    const bareRate = await rateOf(PATCHES, IN_FLIGHT, () =>
      bare.connection.call({ method: "PATCH", path: `/?bytes=${size}`, body: body(round), type }),
    );
    rounds.push([bareRate, await patch(ours), await patch(kept)]);
  }
  report("patches of a status", ["bare", "in memory", "on disk"], rounds);
}

async function measureList(bare: Started, ours: Started): Promise<void> {
  const size = await ours.connection.call({ method: "GET", path: PATH });
  const rounds: number[][] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const bareRate = await rateOf(3, 1, () => bare.connection.call({ method: "GET", path: `/?bytes=${size}` }));
    // Every list meets objects that have changed since the one before.
    await rateOf(PODS, IN_FLIGHT, (index) => touch(ours, index, round));
    rounds.push([bareRate, await rateOf(1, 1, () => ours.connection.call({ method: "GET", path: PATH }))]);
    rounds.at(-1)?.push(await rateOf(3, 1, () => ours.connection.call({ method: "GET", path: PATH })));
  }
  const mib = (size / 1024 / 1024).toFixed(1);
  report(`lists of ${PODS} pods, ${mib} MiB each`, ["bare", "after changes of all", "again"], rounds);
}

function touch({ connection }: Started, index: number, turn: number): Promise<number> {
  const body = JSON.stringify({ metadata: { annotations: { turn: `${turn}` } } });
  return connection.call({ method: "PATCH", path: `${PATH}/pod-${index}`, body, type: "application/merge-patch+json" });
}

async function measureFanOut(bare: Started, ours: Started): Promise<void> {
  const before = await ours.memory();
  const oursHeard = await watch(ours, `${PATH}?watch=true&resourceVersion=${await versionOf(ours)}`);
  const bareHeard = await watch(bare, "/watch");
  await touch(ours, 0, 100);
  await oursHeard.until(1);
  const event = oursHeard.bytes() / WATCHERS;
  const changes = 100;
  const rounds: number[][] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const told = async (heard: Heard, change: (index: number) => Promise<unknown>): Promise<number> => {
      const goal = heard.count() / WATCHERS + changes;
      const startMs = performance.now();
      await rateOf(changes, 4, change);
      await heard.until(goal);
      return (changes * WATCHERS * 1000) / (performance.now() - startMs);
    };
    const bareRate = await told(bareHeard, () =>
      bare.connection.call({ method: "PATCH", path: `/?bytes=${event}&event=${event}`, body: "{}" }),
    );
    rounds.push([bareRate, await told(oursHeard, (index) => touch(ours, index, 200 + round))]);
  }
  report(`events to ${WATCHERS} watchers, ${Math.round(event)} bytes each`, ["bare", "in memory"], rounds);
  console.log(`memory for ${WATCHERS} watchers: ${Math.round((await ours.memory()) - before)} MiB`);
}

type Heard = { count(): number; bytes(): number; until(each: number): Promise<void> };

/** Opens the watches and counts the lines of all of them. */
async function watch({ connection }: Started, path: string): Promise<Heard> {
  let lines = 0;
  let bytes = 0;
  let wake: (() => void) | undefined;
  for (let index = 0; index < WATCHERS; index++) {
    const response = await connection.open(path);
    response.on("error", () => undefined);
    response.on("data", (chunk: Buffer) => {
      bytes += chunk.length;
      for (let at = chunk.indexOf(10); at >= 0; at = chunk.indexOf(10, at + 1)) lines += 1;
      wake?.();
    });
  }
  return {
    count: () => lines,
    bytes: () => bytes,
    until: async (each) => {
      while (lines < each * WATCHERS) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    },
  };
}

async function versionOf({ connection }: Started): Promise<string> {
  const response = await connection.open(`${PATH}?limit=1`);
  response.setEncoding("utf8");
  let text = "";
  for await (const chunk of response) text += String(chunk);
  return /"resourceVersion":"(\d+)"/.exec(text)?.[1] ?? "";
}

/** The middle of the rounds, the bare server's first. Ratios are of neighbouring rounds, since the machine does other things too. */
function report(title: string, names: readonly string[], rounds: readonly (readonly number[])[]): void {
  const middleOf = (pick: (round: readonly number[]) => number): number => middle(rounds.map(pick));
  const parts = names.map((name, column) => {
    const rate = middleOf((round) => round[column] ?? 0);
    const ratio = middleOf((round) => (round[column] ?? 0) / (round[0] ?? 1));
    const shown = rate < 100 ? rate.toFixed(1) : Math.round(rate).toLocaleString("en");
    return column === 0 ? `${name} ${shown}/s` : `${name} ${shown}/s (${ratio.toFixed(2)})`;
  });
  console.log(`${title}: ${parts.join(", ")}`);
}

function pod(name: string): string {
  const container = {
    name: "main",
    image: "registry.example.com/benchmarks/worker:1.4.2",
    command: ["node", "worker.js"],
    env: Array.from({ length: 12 }, (_, index) => ({ name: `VARIABLE_${index}`, value: `value-of-${index}` })),
    resources: { requests: { cpu: "500m", memory: "512Mi" }, limits: { memory: "1Gi" } },
    readinessProbe: { tcpSocket: { port: 8080 }, periodSeconds: 5 },
  };
  const labels = { app: "worker", session: "session-1", component: "workers", index: name };
  return JSON.stringify({ metadata: { name, labels }, spec: { nodeName: "node-1", containers: [container] } });
}

async function start(program: string, ...args: string[]): Promise<Started> {
  const child: ChildProcess = fork(join(import.meta.dirname, program), args, {
    stdio: ["ignore", "pipe", "inherit", "ipc"],
    execArgv: ["--expose-gc"],
  });
  if (child.stdout === null) throw new Error("the process has no output");
  const [line] = (await once(createInterface({ input: child.stdout }), "line")) as [string];
  const server = JSON.parse(line) as Server;
  const connection = connectTo(server);
  return {
    connection,
    server,
    memory: async () => {
      const answered = once(child, "message") as Promise<[{ rss: number }]>;
      child.send("memory");
      return (await answered)[0].rss / 1024 / 1024;
    },
    [Symbol.asyncDispose]: async () => {
      connection[Symbol.dispose]();
      const exited = once(child, "exit");
      child.kill("SIGKILL");
      await exited;
    },
  };
}
