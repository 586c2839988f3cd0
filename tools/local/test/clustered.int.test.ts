import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buckets, streams } from "@muster/proto";
import { startNatsCluster, until, type TestNatsCluster } from "@muster/testkit";
import { expect, it } from "vitest";
import {
  listEventNames,
  expectNothingLeft,
  isFinished,
  buildSessionUntilFile,
  buildSmallSession,
  startWorld,
  submitSession,
  waitForSession,
} from "./stack-world.ts";

const GOOD = ["QUEUE", "ACCEPT", "PROVISION", "RUN", "DONE"];
const PATIENT = { timeoutMs: 120_000, everyMs: 100 };
const STREAMS = [`KV_${buckets.sessions}`, `KV_${buckets.pods}`, `KV_${buckets.locks}`, streams.ledger.name];

type Connection = Awaited<ReturnType<TestNatsCluster["connect"]>>;

type StreamInfo = {
  readonly config: { readonly num_replicas: number };
  readonly cluster?: { readonly leader?: string; readonly replicas?: readonly { readonly current: boolean }[] };
};

async function readInfo(connection: Connection, stream: string): Promise<StreamInfo> {
  return (await connection.request(`$JS.API.STREAM.INFO.${stream}`, "", { timeout: 2000 })).json<StreamInfo>();
}

/** Waits until every server has every stream, so that the loss of one loses no message. */
function untilSafe(connection: Connection): Promise<unknown> {
  return until(
    "three servers have all of every stream",
    async () => {
      const infos = await Promise.all(STREAMS.map((stream) => readInfo(connection, stream)));
      return infos.every(({ config, cluster }) => {
        const others = cluster?.replicas ?? [];
        return config.num_replicas === 3 && others.length === 2 && others.every(({ current }) => current);
      });
    },
    PATIENT,
  );
}

it(
  "continues sessions when one of three servers is killed, and then the leader of the ledger's stream, with keys and TLS",
  { timeout: 400_000 },
  async () => {
    await using stack = new AsyncDisposableStack();
    const directory = stack.use(await mkdtempDisposable(join(tmpdir(), "muster-clustered-"))).path;
    const cluster = stack.use(await startNatsCluster(3, { secured: true }));
    const { url, secured } = cluster;
    const env = { MUSTER_NATS_REPLICAS: "3", SESSION_EXECUTORS: "2" };
    const world = stack.use(await startWorld({ nats: { url, secured }, env, pools: { drivers: 2, workers: 4 } }));
    const operator = stack.use(await cluster.connect("backup"));
    const leaderOf = (stream: string) =>
      until(`${stream} has a leader`, async () => (await readInfo(operator, stream)).cluster?.leader, PATIENT);

    const endFile = join(directory, "end");
    await submitSession(world, "long", buildSessionUntilFile(endFile));
    const runs = (session: Parameters<typeof listEventNames>[0]) => listEventNames(session).includes("RUN");
    await waitForSession(world, "long", "runs", runs);

    let killed: number | undefined;
    for (const stream of [`KV_${buckets.sessions}`, streams.ledger.name]) {
      if (killed !== undefined) await cluster.start(killed);
      await untilSafe(operator);
      killed = cluster.indexOf(await leaderOf(stream));
      await cluster.kill(killed);
      const name = `after-${killed}-${stream === streams.ledger.name ? "ledger" : "sessions"}`;
      await until(
        "a session is taken",
        () => submitSession(world, name, buildSmallSession({ driverSeconds: 0 })).then(() => true),
        PATIENT,
      );
      expect(listEventNames(await waitForSession(world, name, "is finished", isFinished))).toEqual(GOOD);
    }
    await writeFile(endFile, "");
    expect(listEventNames(await waitForSession(world, "long", "is finished", isFinished))).toEqual(GOOD);
    await expectNothingLeft(world);
  },
);
