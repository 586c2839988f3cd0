import { publishEvent } from "@muster/bus";
import { buildResultBytes, toNanoseconds } from "@muster/leases";
import { verifySignature } from "@muster/leases/keys";
import { muster, subjects } from "@muster/proto";
import { until } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { toWireOrder } from "@muster/leases/wire";
import {
  listAnswers,
  makeUser,
  ENGINE_KEY,
  engineSigner,
  openEngineWorld,
  listHistory,
  LONG,
  nowNs,
  NS_PER_MS,
  sendOrder,
  readPhase,
  waitForPhase,
  waitUntilReady,
  signEnd,
  signOrder,
  signRenewal,
  type EngineWorld,
} from "./engine-world.ts";

describe("an engine", () => {
  const user = makeUser();
  let world: EngineWorld;

  beforeAll(async () => {
    world = await openEngineWorld();
    await world.startEngine();
    await waitUntilReady(world);
  });

  afterAll(() => world[Symbol.asyncDispose]());

  it("provisions an order, reports a signed result, and ends it when its user ends it", async () => {
    const { outcome } = await sendOrder(world, signOrder(user, { id: "1-1" }));
    expect(outcome).toBe("ORDERED");
    await waitForPhase(world, "1-1", "ACTIVE");
    const [first] = await until(
      "it is reported",
      async () => {
        const answers = await listAnswers(world, "1-1");
        return answers.length > 0 && answers;
      },
      LONG,
    );
    const { id = "", type = "", message = "", dataJson, created, signature } = first?.result ?? {};
    const data = new TextDecoder().decode(dataJson);
    expect(data).toBe('{"say":"hello"}');
    const createdNs = toNanoseconds(created ?? { seconds: 0, nanos: 0 });
    const content = buildResultBytes({
      id,
      type,
      message,
      data,
      createdNs,
      state: "ok",
    });
    expect(verifySignature(engineSigner.publicKey, content, signature ?? new Uint8Array())).toBe(true);
    await world.leases.endLease({ requestId: "e", end: signEnd(user, "1-1") });
    await waitForPhase(world, "1-1", "ENDED");
    await until("the end is reported", async () => (await listAnswers(world, "1-1")).at(-1)?.deleted === true, LONG);
    expect(await listHistory(world, "1-1")).toEqual(["ORDERED", "PROVISIONED", "ENDING", "DECOMMISSIONED"]);
  });

  it("sends the answer of a repeated order again, and provisions nothing twice", async () => {
    const sent = signOrder(user, { id: "1-2" });
    await sendOrder(world, sent);
    await waitForPhase(world, "1-2", "ACTIVE");
    await until("it is reported", async () => (await listAnswers(world, "1-2")).length === 1, LONG);
    expect((await sendOrder(world, sent)).outcome).toBe("RESENT");
    await until("it is reported again", async () => (await listAnswers(world, "1-2")).length === 2, LONG);
    expect(await listHistory(world, "1-2")).toEqual(["ORDERED", "PROVISIONED", "RESENT"]);
  });

  it("ends a lease strictly after its time is over, and no earlier", async () => {
    // Even on a slow machine, one of the orders arrives before it is over.
    const short = await until(
      "an order is taken",
      async () => {
        const sent = signOrder(user, { id: "1-3", durationNs: 3_000n * NS_PER_MS });
        await sendOrder(world, sent);
        return sent;
      },
      LONG,
    );
    await waitForPhase(world, "1-3", "ENDED");
    const { lease } = await world.leases.getLease({ id: "1-3" });
    const { at, cause } = lease?.record?.ending ?? {};
    expect(cause).toBe("EXPIRED");
    const endedNs = toNanoseconds({ seconds: at?.seconds ?? 0, nanos: at?.nanos ?? 0 });
    expect(endedNs).toBeGreaterThan(short.createdNs + short.durationNs);
  });

  it("ends a renewed lease later, and accepts no renewal that is older than the last", async () => {
    const lasting = signOrder(user, { id: "1-4" });
    await sendOrder(world, lasting);
    const renewedNs = lasting.createdNs + 7_200_000n * NS_PER_MS;
    const { lease } = await world.leases.renewLease({
      requestId: "n",
      renewal: signRenewal(user, "1-4", renewedNs, 2),
    });
    expect(toNanoseconds(lease?.record?.expiresAt ?? { seconds: 0, nanos: 0 })).toBe(renewedNs);
    const old = signRenewal(user, "1-4", renewedNs + NS_PER_MS, 1);
    await expect(world.leases.renewLease({ requestId: "o", renewal: old })).rejects.toThrow("sequence");
    const others = signRenewal(makeUser(), "1-4", renewedNs + NS_PER_MS, 3);
    await expect(world.leases.renewLease({ requestId: "p", renewal: others })).rejects.toMatchObject({
      fault: { code: "not_found" },
    });
  });

  it("takes orders from the stream, and reports why it refuses one", async () => {
    const publish = async (sent: ReturnType<typeof signOrder>): Promise<unknown> =>
      publishEvent(world.bus, subjects.orderLease("main", sent.id), muster.provision.v1.Order, toWireOrder(sent), {
        messageId: `${sent.id}.order`,
      });
    await publish(signOrder(user, { id: "1-5" }));
    await publish(signOrder(user, { id: "1-6", type: "unheard_of" }));
    // Without a cluster, nothing of these types can exist.
    await publish(signOrder(user, { id: "1-8", type: "volume", data: '{"size":1,"type":"ssd"}' }));
    const over = signOrder(user, { id: "1-7", createdNs: nowNs() - 10_000n * NS_PER_MS, durationNs: 1n });
    await publish(over);
    const early = signOrder(user, { id: "1-9", createdNs: nowNs() + 3_600_000n * NS_PER_MS });
    await publish(early);
    await until("the first is active", async () => (await readPhase(world, "1-5")) === "ACTIVE", LONG);
    await until("the second has failed", async () => (await readPhase(world, "1-6")) === "FAILED", LONG);
    await until("an error is reported", async () => (await listAnswers(world, "1-6"))[0]?.deleted === true, LONG);
    expect((await listAnswers(world, "1-6"))[0]?.result?.message).toContain("not supported: unheard_of");
    await until("so has what is not served", async () => (await readPhase(world, "1-8")) === "FAILED", LONG);
    await until("that is reported, too", async () => (await listAnswers(world, "1-8"))[0]?.deleted === true, LONG);
    expect((await listAnswers(world, "1-8"))[0]?.result?.message).toContain("not served: volume");
    await until("the third is reported gone", async () => (await listAnswers(world, "1-7"))[0]?.deleted === true, LONG);
    await until(
      "why not, of one that is ahead",
      async () => (await listAnswers(world, "1-9"))[0]?.deleted === true,
      LONG,
    );
    expect((await listAnswers(world, "1-9"))[0]?.result?.message).toContain("5m are tolerated");
    await expect(world.leases.getLease({ id: "1-7" })).rejects.toMatchObject({ fault: { code: "not_found" } });
  });

  it.each([
    ["forged", (sent: ReturnType<typeof signOrder>) => ({ ...sent, signature: makeUser().sign(new Uint8Array(3)) })],
    ["unsigned", (sent: ReturnType<typeof signOrder>) => ({ ...sent, signature: new Uint8Array() })],
    ["altered", (sent: ReturnType<typeof signOrder>) => ({ ...sent, durationNs: sent.durationNs + 1n })],
    ["taken over by another user", (sent: ReturnType<typeof signOrder>) => ({ ...sent, user: makeUser().userId })],
  ])("writes nothing for an order that was %s", async (_how, spoil) => {
    const spoilt = spoil(signOrder(user, { id: "2-1" }));
    await expect(sendOrder(world, spoilt)).rejects.toMatchObject({
      fault: { code: "invalid_request", field: "signature" },
    });
    await publishEvent(world.bus, subjects.orderLease("main", "2-1"), muster.provision.v1.Order, toWireOrder(spoilt), {
      messageId: `2-1.${_how}`,
    });
    // The stream keeps one order of a lease: once the next is taken, the first has been decided.
    const next = signOrder(user, { id: "2-1", engine: "other" });
    await until(
      "it is off the stream",
      () =>
        publishEvent(world.bus, subjects.orderLease("main", "2-1"), muster.provision.v1.Order, toWireOrder(next), {
          messageId: `2-1.${_how}.next`,
        }).then(() => true),
      LONG,
    );
    await expect(world.leases.getLease({ id: "2-1" })).rejects.toMatchObject({ fault: { code: "not_found" } });
    expect(await listAnswers(world, "2-1")).toEqual([]);
  });

  it("accepts no order that is over or in the future, and no replay as another one", async () => {
    const over = signOrder(user, { id: "2-2", createdNs: nowNs() - 10_000n * NS_PER_MS, durationNs: 1n });
    await expect(sendOrder(world, over)).rejects.toThrow("ended");
    const early = signOrder(user, { id: "2-3", createdNs: nowNs() + 3_600_000n * NS_PER_MS });
    await expect(sendOrder(world, early)).rejects.toMatchObject({
      fault: { code: "invalid_request", field: "created" },
    });
    const taken = signOrder(user, { id: "2-4" });
    await sendOrder(world, taken);
    await expect(sendOrder(world, { ...taken, id: "2-5" })).rejects.toThrow("signature");
    const other = signOrder(makeUser(), { id: "2-4" });
    await expect(sendOrder(world, other)).rejects.toMatchObject({ fault: { code: "already_exists" } });
    await expect(world.leases.endLease({ requestId: "x", end: signEnd(makeUser(), "2-4") })).rejects.toThrow("not");
    await waitForPhase(world, "2-4", "ACTIVE");
  });

  it("never runs an ended order again, however often it is replayed", async () => {
    const sent = signOrder(user, { id: "2-6" });
    await sendOrder(world, sent);
    await waitForPhase(world, "2-6", "ACTIVE");
    await world.leases.endLease({ requestId: "e", end: signEnd(user, "2-6") });
    await waitForPhase(world, "2-6", "ENDED");
    for (let times = 0; times < 3; times++) await sendOrder(world, sent);
    expect(await readPhase(world, "2-6")).toBe("ENDED");
    const history = await listHistory(world, "2-6");
    expect(history.filter((type) => type === "PROVISIONED")).toHaveLength(1);
  });

  it("checks an order without writing it, lists leases page by page, and counts them", async () => {
    const other = makeUser();
    const dry = { requestId: "d", order: toWireOrder(signOrder(other, { id: "3-1" })), dryRun: true };
    expect(await world.leases.orderLease(dry)).toMatchObject({ outcome: "ORDERED", refusedBecause: "" });
    const unserved = toWireOrder(signOrder(other, { id: "3-1", type: "network", data: '{"name":"net"}' }));
    expect(await world.leases.orderLease({ ...dry, order: unserved })).toMatchObject({
      refusedBecause: expect.stringContaining("not served: network") as unknown,
    });
    const many = { ...dry, before: Array.from({ length: 101 }, () => unserved) };
    await expect(world.leases.orderLease(many)).rejects.toMatchObject({ fault: { field: "before" } });
    await expect(world.leases.getLease({ id: "3-1" })).rejects.toMatchObject({ fault: { code: "not_found" } });
    for (const id of ["3-1", "3-2", "3-3"]) await sendOrder(world, signOrder(other, { id }));
    for (const id of ["3-1", "3-2", "3-3"]) await waitForPhase(world, id, "ACTIVE");
    const idsFrom = async (after: string): Promise<string[]> => {
      const page = await world.leases.listLeases({ user: other.userId, limit: 2, continue: after });
      const ids = page.leases.map(({ record }) => record?.order?.id ?? "");
      return page.continue === "" ? ids : [...ids, ...(await idsFrom(page.continue))];
    };
    await until("all are listed", async () => (await idsFrom("")).join() === "3-1,3-2,3-3", LONG);
    await until(
      "the counters are those of the active leases",
      async () => {
        const active = await world.leases.listLeases({ phase: muster.provision.v1.LeasePhase.LEASE_PHASE_ACTIVE });
        const { counters } = await world.leases.getCounters({ engine: "main" });
        return active.leases.length >= 3 && counters?.debug === active.leases.length;
      },
      LONG,
    );
  });

  it("never logs its key", () => {
    expect(world.logLines.length).toBeGreaterThan(0);
    expect(world.logLines.filter((line) => line.includes(ENGINE_KEY))).toEqual([]);
    expect(world.logLines.filter((line) => line.includes('"level":"error"'))).toEqual([]);
  });

  it("names a lease with an unreadable record, once it arrives and at every start", async () => {
    const { bus, leases } = world;
    await bus.connection.request("$KV.muster-leases.9-9", new Uint8Array([255]), { timeout: 30_000 });
    const reported = () =>
      world.logLines.filter((line) => line.includes('"lease":"9-9"') && line.includes("cannot read"));
    await until("it is logged", () => reported().length === 1, LONG);
    const { unreadable } = await leases.listLeases({ limit: 1 });
    expect(unreadable).toMatchObject([{ id: "9-9" }]);
    const second = await world.startEngine();
    await until("another replica logs it, too", () => reported().length === 2, LONG);
    await second.stop();
  });
});
