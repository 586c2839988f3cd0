import { existsSync } from "node:fs";
import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { openView } from "@muster/store";
import { until } from "@muster/testkit";
import { describe, expect, it } from "vitest";
import { openLeases } from "../src/adapters/records.ts";
import type { LeaseRecord } from "../src/domain/lease.ts";
import {
  listAnswers,
  makeUser,
  openEngineWorld,
  listHistory,
  LONG,
  sendOrder,
  readPhase,
  waitForPhase,
  waitUntilReady,
  signEnd,
  signOrder,
  signRenewal,
  nowNs,
} from "./engine-world.ts";

const MAIN = fileURLToPath(new URL("file-engine.process.ts", import.meta.url));
const TEST_MS = 300_000;
const user = makeUser();

/** Engines whose workloads are files, and the records that they write. */
async function takeOverWorld() {
  await using starting = new AsyncDisposableStack();
  const directory = starting.use(await mkdtempDisposable(join(tmpdir(), "muster-take-over-"))).path;
  const world = starting.use(await openEngineWorld());
  const start = async () => {
    const engine = await world.startEngine({ FILES: directory }, MAIN);
    await waitUntilReady(world);
    return engine;
  };
  const first = await start();
  const stop = new AbortController();
  starting.defer(() => stop.abort());
  const view = starting.use(
    await openView(await openLeases(world.bus.connection), { signal: stop.signal, onProblem: () => undefined }),
  );
  const recordOf = (id: string): LeaseRecord | undefined => {
    const value = view.get(id)?.value;
    return value !== undefined && "record" in value ? value.record : undefined;
  };
  const all = starting.move();
  return {
    world,
    first,
    start,
    recordOf,
    exists: (name: string): boolean => existsSync(join(directory, name)),
    spoil: (id: string): Promise<void> => writeFile(join(directory, `${id}.kill`), ""),
    /** Called with each written record. */
    onWrite: (listener: () => void) => view.onChange(listener),
    end: (id: string) => world.leases.endLease({ requestId: `e-${id}`, end: signEnd(user, id) }),
    resultOf: async (id: string) => (await world.leases.getLease({ id })).lease?.record?.result,
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

type World = Awaited<ReturnType<typeof takeOverWorld>>;

/** The moments between the writes of a take-over, named by the last write. */
const MOMENTS: readonly (readonly [string, (recordOf: World["recordOf"]) => boolean])[] = [
  ["it is ordered", (recordOf) => recordOf("2-1")?.phase === "ORDERED"],
  ["its record names the older lease", (recordOf) => recordOf("2-1")?.takesOver === "1-1"],
  ["the record of the older lease names its heir", (recordOf) => recordOf("1-1")?.heir === "2-1"],
  ["its own record shows that it has the workload", (recordOf) => recordOf("2-1")?.madeFor !== undefined],
  ["it is ACTIVE", (recordOf) => recordOf("2-1")?.phase === "ACTIVE"],
];

describe("a lease that takes over the workload of another one", { timeout: TEST_MS }, () => {
  it.each(MOMENTS)("has the workload, whichever engine dies once %s", async (_moment, isThen) => {
    await using files = await takeOverWorld();
    const { world, first, recordOf } = files;
    await sendOrder(world, signOrder(user, { id: "1-1" }));
    await waitForPhase(world, "1-1", "ACTIVE");
    let dies = false;
    const stop = files.onWrite(() => {
      if (isThen(recordOf) && !dies) void first.kill();
      dies ||= isThen(recordOf);
      // At each moment exactly one of the two has the workload.
      if (recordOf("1-1")?.heir === undefined) expect(recordOf("2-1")?.madeFor).toBeUndefined();
    });
    // The engine may die before it answers.
    const ordered = sendOrder(world, signOrder(user, { id: "2-1", reference: "1-1" })).catch(() => undefined);
    await until("the first has died", () => first.hasEnded(), LONG);
    stop();
    await files.start();
    await waitForPhase(world, "2-1", "ACTIVE");
    await ordered;
    expect([await readPhase(world, "1-1"), files.exists("1-1"), files.exists("2-1")]).toEqual(["ENDED", true, false]);
    expect(await listHistory(world, "1-1")).toEqual(["ORDERED", "PROVISIONED", "MIGRATED"]);
    // The second engine gets the order again if the first one died without an answer.
    const happened = (await listHistory(world, "2-1")).filter((what) => what !== "RESENT");
    expect(happened).toEqual(["ORDERED", "MIGRATED", "PROVISIONED"]);
    await files.end("1-1");
    expect(files.exists("1-1")).toBe(true);
    await files.end("2-1");
    await waitForPhase(world, "2-1", "ENDED");
    expect(files.exists("1-1")).toBe(false);
  });

  it("has it under its own id, and hands it on", async () => {
    await using files = await takeOverWorld();
    const { world } = files;
    await sendOrder(world, signOrder(user, { id: "1-1" }));
    await waitForPhase(world, "1-1", "ACTIVE");
    await files.spoil("2-1");
    await sendOrder(world, signOrder(user, { id: "2-1", reference: "1-1" }));
    await until("an engine has died at its call", () => files.first.hasEnded(), LONG);
    await files.start();
    await waitForPhase(world, "2-1", "ACTIVE");
    await sendOrder(world, signOrder(user, { id: "3-1", reference: "2-1" }));
    await waitForPhase(world, "3-1", "ACTIVE");
    expect(files.recordOf("3-1")?.madeFor).toEqual({ id: "1-1", run: 1 });
    expect(await files.resultOf("3-1")).toMatchObject({ id: "3-1", state: 1 });
    const counters = async () => (await world.leases.getCounters({ engine: "main" })).counters?.debug;
    await until("it is counted once", async () => (await counters()) === 1, LONG);
    const answers = async (id: string) => (await listAnswers(world, id)).map(({ deleted }) => deleted);
    await until("the ends of both older leases are reported", async () => {
      const reported = await Promise.all(["1-1", "2-1"].map(answers));
      return reported.every((each) => each.at(-1) === true);
    });
    expect((await answers("3-1")).includes(true)).toBe(false);
    const renewing = world.leases.renewLease({
      requestId: "r",
      renewal: signRenewal(user, "2-1", nowNs() * 2n, 1),
    });
    await expect(renewing).rejects.toThrow(/lease 2-1 was taken over by lease 3-1/);
    await files.end("3-1");
    await waitForPhase(world, "3-1", "ENDED");
    expect(files.exists("1-1")).toBe(false);
  });

  it("is refused the workload of another user, of another type, of an ended lease, or handed over before, with the reason", async () => {
    await using files = await takeOverWorld();
    const { world } = files;
    for (const id of ["1-1", "1-2", "1-3"]) {
      await sendOrder(world, signOrder(user, { id }));
      await waitForPhase(world, id, "ACTIVE");
    }
    await files.end("1-2");
    await waitForPhase(world, "1-2", "ENDED");
    await sendOrder(world, signOrder(user, { id: "1-4", reference: "1-3" }));
    await waitForPhase(world, "1-4", "ACTIVE");
    const refused = [
      [signOrder(makeUser(), { id: "2-1", reference: "1-1" }), "lease 1-1 is of another user"],
      [signOrder(user, { id: "2-2", reference: "1-1", data: "{}" }), "lease 1-1 was ordered with other data"],
      [signOrder(user, { id: "2-3", reference: "1-2" }), "lease 1-2 is ENDED; order without a reference"],
      [signOrder(user, { id: "2-4", reference: "1-3" }), "was taken over by lease 1-4; refer to that one"],
    ] as const;
    for (const [sent, because] of refused) {
      await sendOrder(world, sent);
      await waitForPhase(world, sent.id, "FAILED");
      expect((await files.resultOf(sent.id))?.message).toContain(because);
    }
    await expect(sendOrder(world, signOrder(user, { id: "2-5", reference: "2-5" }))).rejects.toThrow(/reference/);
    await sendOrder(world, signOrder(user, { id: "2-6", reference: "8-8" }));
    await waitForPhase(world, "2-6", "ACTIVE");
    expect([files.exists("2-6"), files.exists("1-1"), await readPhase(world, "1-1")]).toEqual([true, true, "ACTIVE"]);
  });
});
