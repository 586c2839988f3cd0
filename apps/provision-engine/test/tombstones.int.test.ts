import { MAX_DURATION_NS, type Order } from "@muster/leases";
import { until } from "@muster/testkit";
import { expect, it } from "vitest";
import { makeRecords, openLeases } from "../src/adapters/records.ts";
import { makeLeaseRecord } from "./a-lease.ts";
import type { LeaseRecord } from "../src/domain/lease.ts";
import {
  listAnswers,
  makeUser,
  openEngineWorld,
  LONG,
  sendOrder,
  readPhase,
  waitForPhase,
  waitUntilReady,
  signOrder,
} from "./engine-world.ts";

const user = makeUser();
const forEver = (id: string): Order => signOrder(user, { id, durationNs: MAX_DURATION_NS });
const over = (of: Order, changes: Partial<LeaseRecord>): LeaseRecord =>
  makeLeaseRecord({ order: of, phase: "ENDED", endedAtNs: of.createdNs + 1n, fence: 0, ...changes });

it("records of leases that are over lose their data at the next pass, and their orders are recognised by the rest", async () => {
  await using world = await openEngineWorld();
  const records = makeRecords(await openLeases(world.bus.connection));
  const [ended, failed] = [forEver("1-1"), forEver("1-2")];
  await records.create(over(ended, {}));
  await records.create(over(failed, { phase: "FAILED" }));
  const isCompact = (id: string) => async () => {
    const record = (await records.get(id))?.record;
    return record?.orderHash !== undefined && record.order.data === "";
  };
  const first = await world.startEngine();
  await waitUntilReady(world);
  for (const { id } of [ended, failed]) await until(`the data of ${id} are gone`, isCompact(id), LONG);
  await first.kill();
  await world.startEngine();
  await waitUntilReady(world);

  await sendOrder(world, ended);
  await until("its end is reported", async () => (await listAnswers(world, "1-1")).length === 1, LONG);
  expect((await listAnswers(world, "1-1"))[0]).toMatchObject({ deleted: true, result: undefined });
  expect(await readPhase(world, "1-1")).toBe("ENDED");
  const forged = sendOrder(world, signOrder(user, { id: "1-1", createdNs: ended.createdNs, data: '{"say":"other"}' }));
  await expect(forged).rejects.toMatchObject({ fault: { code: "already_exists" } });

  await sendOrder(world, failed);
  await waitForPhase(world, "1-2", "ACTIVE");
  expect((await records.get("1-2"))?.record).toMatchObject({
    order: { data: failed.data },
    run: 2,
    orderHash: undefined,
  });
}, 300_000);
