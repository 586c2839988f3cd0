import { findFault } from "@muster/faults";
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
  type EngineWorld,
} from "./engine-world.ts";

const ROOM_BYTES = 1_000_000;
const FILLER = "muster.evt.filler.x.filled";
const TEST_MS = 300_000;

it(
  "refuses orders and ends while NATS is full, reports that, and loses nothing: expired leases end as soon as NATS has room",
  async () => {
    await using world = await openEngineWorld();
    const user = makeUser();
    await world.startEngine({ PROVISION_LOCK_TTL_MS: "3000" });
    await waitUntilReady(world);
    await sendOrder(world, signOrder(user, { id: "1-1" }));
    await sendOrder(world, signOrder(user, { id: "1-2" }));
    for (const id of ["1-1", "1-2"]) await waitForPhase(world, id, "ACTIVE");
    for (const id of ["1-1", "1-2"]) await listHistory(world, id);
    const { nats, leases } = world;
    const { storage } = JSON.parse(await ask(world, "$JS.API.INFO")) as { readonly storage: number };
    await nats.kill();
    await nats.start(storage + ROOM_BYTES);
    const short = () => sendOrder(world, signOrder(user, { id: "1-3", durationNs: 10_000n * NS_PER_MS }));
    const isThere = (error: unknown): boolean => findFault(error)?.code === "already_exists";
    await until("a short one is taken", () => short().then(() => true, isThere), LONG);
    await fill(world);
    // The engine's writes may use the last bytes that the filler left.
    const late = signOrder(user, { id: "1-4" });
    await until("an order is refused", () => sendOrder(world, late).then(() => false, isFull), LONG);
    const end = () => leases.endLease({ requestId: "e", end: signEnd(user, "1-2") });
    await until("an end is refused", () => end().then(() => false, isFull), LONG);
    const { lease } = await leases.getLease({ id: "1-3" });
    await until("the short one is over", () => (lease?.record?.expiresAt?.seconds ?? 0) + 1 < Date.now() / 1000, LONG);
    await ask(world, "$JS.API.STREAM.PURGE.MUSTER_EVENTS", { filter: FILLER });
    await waitForPhase(world, "1-3", "ENDED");
    await until("the order is taken", () => sendOrder(world, late).then(() => true), LONG);
    await until("the end is taken", () => end().then(() => true), LONG);
    await waitForPhase(world, "1-4", "ACTIVE");
    await waitForPhase(world, "1-2", "ENDED");
    expect(await readPhase(world, "1-1")).toBe("ACTIVE");
    expect(await listHistory(world, "1-2")).toEqual(["ORDERED", "PROVISIONED", "ENDING", "DECOMMISSIONED"]);
    expect((await listHistory(world, "1-3")).at(-1)).toBe("DECOMMISSIONED");
    expect(await listHistory(world, "1-1")).toEqual(["ORDERED", "PROVISIONED"]);
  },
  TEST_MS,
);

async function ask({ bus }: EngineWorld, subject: string, body: object = {}): Promise<string> {
  return (await bus.connection.request(subject, JSON.stringify(body), { timeout: 30_000 })).string();
}

/** Until not even a small message fits. */
async function fill({ bus }: EngineWorld): Promise<void> {
  const send = async (bytes: number): Promise<string> =>
    (await bus.connection.request(FILLER, new Uint8Array(bytes), { timeout: 30_000 })).string();
  for (const bytes of [ROOM_BYTES / 4, 5000, 50])
    await until(`${bytes} bytes do not fit`, async () => (await send(bytes)).includes("insufficient"), {
      ...LONG,
      everyMs: 0,
    });
}

function isFull(error: unknown): boolean {
  const fault = findFault(error);
  return fault?.code === "limit_exceeded" && fault.what === "storage of nats";
}
