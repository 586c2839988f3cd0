import { publishEvent } from "@muster/bus";
import { findFault } from "@muster/faults";
import { toWireOrder } from "@muster/leases/wire";
import { muster, subjects } from "@muster/proto";
import { until } from "@muster/testkit";
import { expect, it } from "vitest";
import {
  listAnswers,
  makeUser,
  openEngineWorld,
  listHistory,
  LONG,
  NS_PER_MS,
  sendOrder,
  waitForPhase,
  waitUntilReady,
  signEnd,
  signOrder,
  type EngineWorld,
} from "./engine-world.ts";

const BUCKET_BYTES = 2 * 1024 * 1024;
/** A record without a result still needs room to grow. */
const LARGE = JSON.stringify("y".repeat(40_000));
const CONCURRENCY = 8;
const TEST_MS = 300_000;

it(
  "ends expired and cancelled leases, however much other users have ordered",
  async () => {
    await using world = await openEngineWorld();
    const [own, others] = [makeUser(), makeUser()];
    await world.startEngine();
    await waitUntilReady(world);
    await shrink(world);
    await sendOrder(world, signOrder(own, { id: "1-1", durationNs: 40_000n * NS_PER_MS }));
    await sendOrder(world, signOrder(own, { id: "1-2" }));
    for (const id of ["1-1", "1-2"]) await waitForPhase(world, id, "ACTIVE");
    const taken: string[] = [];
    const refusals: unknown[] = [];
    const fill = async (at: number): Promise<void> => {
      for (let next = at; refusals.length < CONCURRENCY; next += CONCURRENCY) {
        const id = `2-${next}`;
        await sendOrder(world, signOrder(others, { id, data: LARGE })).then(
          () => taken.push(id),
          (error: unknown) => refusals.push(findFault(error)),
        );
      }
    };
    await Promise.all(Array.from({ length: CONCURRENCY }, (_, at) => fill(at)));
    expect(refusals).toContainEqual({
      code: "limit_exceeded",
      what: "size of bucket muster-leases without the part that is reserved for ends of leases",
      limit: Math.floor(BUCKET_BYTES * 0.9),
      retryAfterMs: expect.any(Number) as number,
    });
    for (const id of taken) await waitForPhase(world, id, "ACTIVE");
    await world.leases.endLease({ requestId: "e", end: signEnd(own, "1-2") });
    for (const id of ["1-1", "1-2"]) await waitForPhase(world, id, "ENDED");
    expect((await listHistory(world, "1-1")).at(-1)).toBe("DECOMMISSIONED");
  },
  TEST_MS,
);

it(
  "permits each user so many leases and bytes, and names the limit that was reached",
  async () => {
    await using world = await openEngineWorld();
    const [one, other] = [makeUser(), makeUser()];
    await world.startEngine({ PROVISION_USER_LEASES: "2", PROVISION_USER_BYTES: "150000" });
    await waitUntilReady(world);
    await sendOrder(world, signOrder(one, { id: "1-1" }));
    await sendOrder(world, signOrder(one, { id: "1-2" }));
    const third = () => sendOrder(world, signOrder(one, { id: "1-3" }));
    const what = `number of leases (PROVISION_USER_LEASES) of user ${one.userId}`;
    expect(await third().catch(findFault)).toMatchObject({ code: "limit_exceeded", what, limit: 2 });
    const large = (id: string) => sendOrder(world, signOrder(other, { id, data: LARGE }));
    await large("1-4");
    expect(await large("1-5").catch(findFault)).toMatchObject({ code: "limit_exceeded", limit: 150_000 });
    await world.leases.endLease({ requestId: "e", end: signEnd(one, "1-1") });
    await waitForPhase(world, "1-1", "ENDED");
    await until(
      "there is room for the third",
      () =>
        third().then(
          () => true,
          () => false,
        ),
      LONG,
    );
  },
  TEST_MS,
);

async function shrink({ bus }: EngineWorld): Promise<void> {
  const ask = async (subject: string, body: object): Promise<{ readonly config: object }> =>
    (await bus.connection.request(subject, JSON.stringify(body), { timeout: 30_000 })).json();
  const { config } = await ask("$JS.API.STREAM.INFO.KV_muster-leases", {});
  await ask("$JS.API.STREAM.UPDATE.KV_muster-leases", { ...config, max_bytes: BUCKET_BYTES });
}

it(
  "accepts a deferred order of the work queue once its user's limit permits",
  async () => {
    await using world = await openEngineWorld();
    const user = makeUser();
    await world.startEngine({ PROVISION_USER_LEASES: "1" });
    await waitUntilReady(world);
    await sendOrder(world, signOrder(user, { id: "1-1" }));
    await waitForPhase(world, "1-1", "ACTIVE");
    const sent = toWireOrder(signOrder(user, { id: "1-2" }));
    const subject = subjects.orderLease("main", "1-2");
    await publishEvent(world.bus, subject, muster.provision.v1.Order, sent, { messageId: "o" });
    await until("it is refused", () => world.logLines.some((line) => line.includes("PROVISION_USER_LEASES")), LONG);
    await world.leases.endLease({ requestId: "e", end: signEnd(user, "1-1") });
    await waitForPhase(world, "1-2", "ACTIVE");
    expect(await listAnswers(world, "1-2")).toMatchObject([{ deleted: false }]);
  },
  TEST_MS,
);
