import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { startTestNats, until, type TestNats } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { waitForService, type Child } from "../src/child.ts";
import { ROOT } from "../src/root.ts";
import type { Replica } from "../src/stack.ts";
import { startLuckyWorld, type LuckyWorld } from "./lucky-world.ts";

const LONG = { timeoutMs: 120_000, everyMs: 100 };
/** Longer than any test; the test restarts the service earlier. */
const AWAY_MS = 3_600_000;
const ROOM_BYTES = 1_000_000;
const FILLER = "muster.evt.filler.x.filled";
const GIB = 1024 ** 3;

describe("with a session, a job, a replica set and a lease", { timeout: 400_000 }, () => {
  let nats: TestNats;
  let world: LuckyWorld;
  beforeAll(async () => {
    nats = await startTestNats();
    world = await startLuckyWorld(nats);
  }, 300_000);
  afterAll(async () => {
    await world[Symbol.asyncDispose]();
    await nats[Symbol.asyncDispose]();
  }, 60_000);

  it("reserves no more storage than the NATS server of an installation has", async () => {
    const conf = await readFile(join(ROOT, "deploy/nats/nats.conf"), "utf8");
    const allowed = Number(/max_file_store: (\d+)GB/.exec(conf)?.[1]) * GIB;
    expect((await world.storage()).reserved_storage).toBeLessThan(allowed / 1.5);
  });

  it("loses nothing when all services are restarted, one after another", async () => {
    for (const replica of world.stack.replicas) {
      const before = replica.current();
      await before.stop();
      await readyAgain(replica, before);
    }
    await world.expectAllGoesOn("restarted");
  });

  it("refuses new work while the storage of NATS is full, reports it, and continues when space is free", async () => {
    const { storage } = await world.storage();
    await nats.kill();
    await nats.start(storage + ROOM_BYTES);
    await fill(world);
    await until("a submission is refused", () => world.submit("refused").then(() => false, isLimit), LONG);
    await until(
      "the refusal is counted",
      async () => /_count\{[^}]*error_type="limit_exceeded"/.test(await metricsOf(world, "session-controller")),
      LONG,
    );
    await world.ask("$JS.API.STREAM.PURGE.MUSTER_EVENTS", { filter: FILLER });
    await world.expectAllGoesOn("roomy");
  });

  it("restores a backup after the volume of NATS is lost, and runs no work twice", async () => {
    const file = join(world.directory, "backup");
    await world.cli(`backup ${file}`);
    const ended = new Map(world.stack.replicas.map((replica) => [replica, replica.current()]));
    for (const replica of ended.keys()) await replica.kill(AWAY_MS);
    await nats.kill();
    await nats.loseStore();
    await nats.start();
    await until("NATS is back", () => world.storage().then(() => true), LONG);
    await world.cli(`restore ${file}`);
    for (const replica of ended.keys()) await replica.kill(0);
    for (const [replica, before] of ended) await readyAgain(replica, before);
    await world.expectAllGoesOn("restored");
    await world.expectGoodEnd();
  });
});

async function readyAgain(replica: Replica, before: Child): Promise<void> {
  await until(`${replica.service} is restarted`, () => replica.current() !== before, LONG);
  const { timeoutMs } = LONG;
  await waitForService(replica.current(), { timeoutMs, signal: AbortSignal.timeout(timeoutMs) });
}

/** Fills the storage until not even a small message fits. */
async function fill(world: LuckyWorld): Promise<void> {
  for (const bytes of [ROOM_BYTES / 4, 5000, 50]) {
    await until(`${bytes} bytes do not fit`, async () => (await world.send(FILLER, bytes)).includes("insufficient"), {
      ...LONG,
      everyMs: 0,
    });
  }
}

function isLimit(error: unknown): boolean {
  return error instanceof Error && /over its limit/.test(error.message);
}

async function metricsOf(world: LuckyWorld, service: string): Promise<string> {
  const address = world.stack.replicas.find((replica) => replica.service === service)?.address() ?? "";
  return (await fetch(`http://${address}/metrics`)).text();
}
