import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buckets, streams } from "@muster/proto";
import { startNatsCluster, startTestNats, until } from "@muster/testkit";
import { expect, it } from "vitest";
import { runMuster } from "./muster-run.ts";
import {
  listEventNames,
  expectNothingLeft,
  isFinished,
  buildSessionUntilFile,
  buildSmallSession,
  startWorld,
  submitSession,
  waitForSession,
  type World,
} from "./stack-world.ts";

const GOOD = ["QUEUE", "ACCEPT", "PROVISION", "RUN", "DONE"];
const PATIENT = { timeoutMs: 120_000, everyMs: 100 };
/** Longer than the test. */
const AWAY_MS = 3_600_000;

type StreamInfo = {
  readonly config: { readonly num_replicas: number };
  readonly cluster?: { readonly replicas?: readonly { readonly current: boolean }[] };
};

async function endServices(world: World): Promise<void> {
  await Promise.all(world.stack.replicas.map((replica) => replica.kill(AWAY_MS)));
}

/** Runs a command against these servers; it must exit with 0. */
async function cli(world: World, nats: { readonly url: string; readonly token: string }, line: string): Promise<void> {
  const clientEnv = { ...world.stack.clientEnv, MUSTER_NATS_URL: nats.url, MUSTER_NATS_TOKEN: nats.token };
  const { code, output } = await runMuster({ stack: { clientEnv } }, line.split(" "));
  expect(code, `${line}: ${output}`).toBe(0);
}

it("moves from one NATS server to three by a backup, while a session runs", { timeout: 400_000 }, async () => {
  await using stack = new AsyncDisposableStack();
  const directory = stack.use(await mkdtempDisposable(join(tmpdir(), "muster-one-to-three-"))).path;
  const one = stack.use(await startTestNats());
  const pools = { drivers: 2, workers: 4 };
  const before = stack.use(await startWorld({ nats: one, pools }));
  const endFile = join(directory, "end");
  await submitSession(before, "long", buildSessionUntilFile(endFile));
  await waitForSession(before, "long", "runs", (session) => listEventNames(session).includes("RUN"));

  const file = join(directory, "before-three");
  await endServices(before);
  await cli(before, one, `backup ${file}`);
  await one.kill();
  const three = stack.use(await startNatsCluster(3));
  await cli(before, three, `restore ${file}`);
  const { kubeconfig } = before.stack;
  const env = { MUSTER_NATS_REPLICAS: "3", SESSION_EXECUTORS: "2", SESSION_RESULT_FILE: "result.json" };
  const after = stack.use(await startWorld({ nats: three, env, pools, kubeconfig }));

  await submitSession(after, "new", buildSmallSession({ driverSeconds: 0 }));
  expect(listEventNames(await waitForSession(after, "new", "is finished", isFinished))).toEqual(GOOD);
  expect(listEventNames(await waitForSession(after, "long", "answers", () => true))).toEqual(GOOD.slice(0, -1));
  const operator = stack.use(await three.connect("backup"));
  for (const stream of [`KV_${buckets.sessions}`, `KV_${buckets.locks}`, streams.ledger.name]) {
    const readInfo = async () => (await operator.request(`$JS.API.STREAM.INFO.${stream}`, "")).json<StreamInfo>();
    const isSafe = ({ config, cluster }: StreamInfo): boolean =>
      config.num_replicas === 3 && cluster?.replicas?.filter(({ current }) => current).length === 2;
    await until(`three servers have ${stream}`, async () => isSafe(await readInfo()), PATIENT);
  }
  await writeFile(endFile, "");
  expect(listEventNames(await waitForSession(after, "long", "is finished", isFinished))).toEqual(GOOD);
  await expectNothingLeft(after);
});
