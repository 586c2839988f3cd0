import { existsSync } from "node:fs";
import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { until } from "@muster/testkit";
import { expect, it } from "vitest";
import {
  makeUser,
  openEngineWorld,
  listHistory,
  LONG,
  NS_PER_MS,
  sendOrder,
  readPhase,
  waitForPhase,
  waitUntilReady,
  signEnd,
  signOrder,
  type EngineProcess,
  type EngineWorld,
} from "./engine-world.ts";

const MAIN = fileURLToPath(new URL("file-engine.process.ts", import.meta.url));
const user = makeUser();

async function fileWorld() {
  await using starting = new AsyncDisposableStack();
  const directory = starting.use(await mkdtempDisposable(join(tmpdir(), "muster-lease-files-")));
  const world = starting.use(await openEngineWorld());
  const all = starting.move();
  return {
    world,
    start: (env: Readonly<Record<string, string>> = {}): Promise<EngineProcess> =>
      world.startEngine({ FILES: directory.path, ...env }, MAIN),
    exists: (name: string): boolean => existsSync(join(directory.path, name)),
    touch: (name: string): Promise<void> => writeFile(join(directory.path, name), ""),
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

/** For several long waits. */
const TEST_MS = 300_000;

/** Resolves with the first engine that leads. */
function leaderOf(...engines: readonly EngineProcess[]): Promise<EngineProcess> {
  return until("one leads", () => engines.find((each) => each.hasLed()), LONG);
}

function endLease({ leases }: EngineWorld, id: string): Promise<unknown> {
  return leases.endLease({ requestId: `e-${id}`, end: signEnd(user, id) });
}

it(
  "an engine that dies between creating a workload and recording it leaves nothing behind, and creates nothing twice",
  async () => {
    await using files = await fileWorld();
    const { world } = files;
    const first = await files.start();
    await waitUntilReady(world);
    await files.touch("1-1.kill");
    await sendOrder(world, signOrder(user, { id: "1-1" }));
    await until("the first has died", () => first.hasEnded(), LONG);
    expect(files.exists("1-1")).toBe(true);
    const second = await files.start();
    await waitUntilReady(world);
    await waitForPhase(world, "1-1", "ACTIVE");
    await files.touch("1-1.kill");
    await endLease(world, "1-1");
    await until("the second has died", () => second.hasEnded(), LONG);
    await files.start();
    await waitUntilReady(world);
    await waitForPhase(world, "1-1", "ENDED");
    expect(files.exists("1-1")).toBe(false);
    expect(await listHistory(world, "1-1")).toEqual(["ORDERED", "PROVISIONED", "ENDING", "DECOMMISSIONED"]);
  },
  TEST_MS,
);

it(
  "of two engines with one id one works, and the other continues when that one stops or dies",
  async () => {
    await using files = await fileWorld();
    const { world } = files;
    const both = [await files.start(), await files.start()];
    await waitUntilReady(world);
    const ids = Array.from({ length: 20 }, (_, at) => `2-${at}`);
    await Promise.all(ids.map((id) => sendOrder(world, signOrder(user, { id }))));
    for (const id of ids) await waitForPhase(world, id, "ACTIVE");
    const leader = await leaderOf(...both);
    const other = both.find((each) => each !== leader);
    await leader.stop();
    await endLease(world, "2-0");
    await waitForPhase(world, "2-0", "ENDED");
    const third = await files.start();
    await waitUntilReady(world);
    await other?.kill();
    await until("the third leads", () => third.hasLed(), LONG);
    for (const id of ids.slice(1)) await endLease(world, id);
    for (const id of ids) await waitForPhase(world, id, "ENDED");
    for (const id of ids) {
      expect(files.exists(id)).toBe(false);
      expect(await listHistory(world, id)).toEqual(["ORDERED", "PROVISIONED", "ENDING", "DECOMMISSIONED"]);
    }
  },
  TEST_MS,
);

it(
  "a leader that was frozen detects its successor, and reverts none of its changes",
  async () => {
    await using files = await fileWorld();
    const { world } = files;
    const first = await files.start();
    await waitUntilReady(world);
    await leaderOf(first);
    await sendOrder(world, signOrder(user, { id: "3-1" }));
    await waitForPhase(world, "3-1", "ACTIVE");
    first.freeze();
    const second = await files.start();
    await leaderOf(second);
    await until("an order is taken", () => sendOrder(world, signOrder(user, { id: "3-2" })).then(() => true), LONG);
    await waitForPhase(world, "3-2", "ACTIVE");
    await until("an end is taken", () => endLease(world, "3-1").then(() => true), LONG);
    await waitForPhase(world, "3-1", "ENDED");
    first.goOn();
    await until("the first knows", () => world.logLines.some((line) => line.includes('"state":"lost"')), LONG);
    await sendOrder(world, signOrder(user, { id: "3-3" }));
    await waitForPhase(world, "3-3", "ACTIVE");
    expect([await readPhase(world, "3-1"), await readPhase(world, "3-2")]).toEqual(["ENDED", "ACTIVE"]);
    expect(["3-1", "3-2", "3-3"].map(files.exists)).toEqual([false, true, true]);
    await second.kill();
    await until("the first ends one", () => endLease(world, "3-2").then(() => true), LONG);
    await waitForPhase(world, "3-2", "ENDED");
    expect(files.exists("3-2")).toBe(false);
  },
  TEST_MS,
);

it(
  "a hanging provisioner blocks no other lease and no end, and is called again after its deadline",
  async () => {
    await using files = await fileWorld();
    const { world } = files;
    await files.start({ PROVISION_PARALLEL: "1", PROVISION_DEADLINE_MS: "3000" });
    await waitUntilReady(world);
    await sendOrder(world, signOrder(user, { id: "4-1" }));
    await waitForPhase(world, "4-1", "ACTIVE");
    await files.touch("4-2.hang");
    await sendOrder(world, signOrder(user, { id: "4-2" }));
    await until("it hangs", () => files.exists("4-2.hangs"), LONG);
    await endLease(world, "4-1");
    await sendOrder(world, signOrder(user, { id: "4-3" }));
    await waitForPhase(world, "4-1", "ENDED");
    await waitForPhase(world, "4-3", "ACTIVE");
    await waitForPhase(world, "4-2", "ACTIVE");
    expect(await listHistory(world, "4-2")).toEqual(["ORDERED", "DELAYED", "PROVISIONED"]);
  },
  TEST_MS,
);

it(
  "a lease that expires or is ended while it is being created is removed with all its objects, and is never reported active",
  async () => {
    await using files = await fileWorld();
    const { world } = files;
    await files.start({ PROVISION_DEADLINE_MS: "86400000" });
    await waitUntilReady(world);
    await files.touch("5-1.hang");
    const short = () => signOrder(user, { id: "5-1", durationNs: 15_000n * NS_PER_MS });
    // Even on a slow machine, one of the orders arrives long enough before it is over that its creation begins.
    await until("an order is taken", () => sendOrder(world, short()).then(() => true), LONG);
    await until("it hangs", () => files.exists("5-1.hangs"), LONG);
    await waitForPhase(world, "5-1", "ENDED");
    expect(files.exists("5-1")).toBe(false);
    await files.touch("5-2.hang");
    await sendOrder(world, signOrder(user, { id: "5-2" }));
    await until("it hangs", () => files.exists("5-2.hangs"), LONG);
    await endLease(world, "5-2");
    await waitForPhase(world, "5-2", "ENDED");
    expect(files.exists("5-2")).toBe(false);
    for (const id of ["5-1", "5-2"])
      expect(await listHistory(world, id)).toEqual(["ORDERED", "ENDING", "DECOMMISSIONED"]);
  },
  TEST_MS,
);
