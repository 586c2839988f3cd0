import { connectNats, serveMethods, type Handlers, type NatsBus } from "@muster/bus";
import { throwFault } from "@muster/faults";
import { muster as wire, NodeService, ReservationService } from "@muster/proto";
import { startTestNats, type TestNats } from "@muster/testkit";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { inProcess } from "./in-process.ts";

const { RESERVATION_STATE_WAITING: WAITING } = wire.reservation.v1.ReservationState;
const now = Date.now();
const owner = { kind: "lease", id: "train" };
const about = { version: "1.0.0", description: "for a test" };

let server: TestNats;
let bus: NatsBus;
const served = new AsyncDisposableStack();
/** The answer of the ledger. */
let explained: wire.reservation.v1.ExplainReservationReply.$Properties;
let pools: readonly wire.reservation.v1.Pool.$Properties[];
/** The owners for which the scaler was asked. */
const asked: unknown[] = [];

const notAsked = (): never => throwFault({ code: "internal", operation: "not asked for here" });

const LEDGER: Handlers<typeof ReservationService> = {
  reserve: notAsked,
  checkReservation: notAsked,
  unreserve: notAsked,
  acceptPreemption: notAsked,
  requeue: notAsked,
  limitConcurrency: notAsked,
  getReservation: notAsked,
  listReservations: notAsked,
  listDemand: notAsked,
  listMachines: notAsked,
  listQueues: notAsked,
  listUsage: notAsked,
  explainReservation: () => Promise.resolve(explained),
  listPools: () => Promise.resolve({ pools: [...pools] }),
};

const scaler = (
  answer: wire.node.v1.ExplainDemandReply.$Properties,
  scalings: wire.node.v1.PoolScaling.$Properties[] = [],
  troubles: wire.node.v1.PoolTrouble.$Properties[] = [],
): Promise<AsyncDisposable> => {
  const handlers: Handlers<typeof NodeService> = {
    listNodes: notAsked,
    terminateNode: notAsked,
    dumpNodes: () => Promise.resolve({ pools: scalings, troubles }),
    explainDemand: (request) => {
      asked.push(request.owner);
      return Promise.resolve(answer);
    },
  };
  return serveMethods(bus, NodeService, handlers, about);
};

const muster = (...args: string[]) => inProcess(args, { url: server.url, token: server.token });

beforeAll(async () => {
  server = await startTestNats();
  bus = await connectNats({ url: server.url, token: server.token, name: "elastic" });
  served.use(await serveMethods(bus, ReservationService, LEDGER, about));
});
afterAll(async () => {
  await served.disposeAsync();
  await bus[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
});
beforeEach(() => {
  asked.length = 0;
  explained = {
    reservation: { id: "r-1", owner, state: WAITING, createdAtMs: now - 60_000 },
    code: "POOL_AVAILABILITY",
    message: "pool elastic has 1 of 4 machines; it may grow to 8",
    pools: [
      { pool: "drivers", requested: 1, available: 1, capacity: 1 },
      { pool: "elastic", requested: 4, available: 1, capacity: 1, elasticMax: 8 },
    ],
  };
  pools = [
    { name: "drivers", available: 1, capacity: 1 },
    { name: "elastic", elasticMax: 8, waiting: 1 },
  ];
});

describe("muster explain, with a pool that may grow", () => {
  it("reports which nodes boot for waiting work, and the maximum of the pool", async () => {
    const booting = [{ instanceType: "large", count: 2, sinceMs: now - 40_000 }];
    const message = "waiting for 2 nodes of type large, booting for 40 s";
    await using _scaler = await scaler({ known: true, code: "BOOTING", message, booting });
    const { code, out } = await muster("explain", "lease/train");
    expect(out.slice(1, 3)).toEqual([
      "  pool elastic has 1 of 4 machines; it may grow to 8",
      "nodes: waiting for 2 nodes of type large, booting for 40 s",
    ]);
    expect(out.join("\n")).toMatch(/UNUSABLE +MAX\ndrivers .* -\nelastic .* 8\n/);
    expect([code, asked]).toEqual([0, [owner]]);

    const machine = await muster("explain", "lease/train", "-o", "json");
    expect(JSON.parse(machine.out.join("\n"))).toMatchObject({
      code: "POOL_AVAILABILITY",
      reservation: { pools: [{ elasticMax: 0 }, { elasticMax: 8 }] },
      scaling: {
        state: "known",
        code: "BOOTING",
        message,
        booting: [{ instanceType: "large", count: 2, since: new Date(now - 40_000).toISOString() }],
      },
    });
  });

  it("reports with a code and a sentence why no node is created", async () => {
    const message = "a gang of 4 does not fit: 3 more nodes are allowed";
    await using _scaler = await scaler({ known: true, code: "GANG_INCOMPLETE", message });
    const { out } = await muster("explain", "lease/train");
    expect(out[2]).toBe(`nodes: GANG_INCOMPLETE: ${message}`);
  });

  it("reports that the scaler knows no need that it could meet", async () => {
    await using _scaler = await scaler({});
    const { out } = await muster("explain", "lease/train");
    expect(out[2]).toBe("nodes: the node scaler knows of no request of this owner that it can meet");
  });

  it("reports that no scaler answers, and shows all other information", async () => {
    const { code, out } = await muster("explain", "lease/train");
    expect(out[2]).toMatch(/^nodes: the node scaler does not answer: /);
    expect(out.join("\n")).toContain("queue: 0 requests ahead");
    expect(code).toBe(0);
    const machine = await muster("explain", "lease/train", "-o", "json");
    expect(JSON.parse(machine.out.join("\n"))).toMatchObject({ scaling: { state: "unanswered" } });
  });

  it("reports how long the scaler was silent, once that is long", async () => {
    const elastic = { pool: "elastic", requested: 4, elasticMax: 8 };
    explained = { ...explained, pools: [{ ...elastic, elasticAtMs: now - 300_000 }] };
    expect((await muster("explain", "lease/train")).out[3]).toMatch(/^nodes: the node scaler last reported 5m\S* ago/);
    explained = { ...explained, pools: [{ ...elastic, elasticAtMs: now - 30_000 }] };
    expect((await muster("explain", "lease/train")).out.join("\n")).not.toContain("last reported");
  });

  it("does not ask the scaler about waits that no further node would end", async () => {
    await using _scaler = await scaler({});
    explained = { ...explained, code: "CONCURRENCY_LIMIT", message: "1 of 1" };
    expect((await muster("explain", "lease/train")).out.join("\n")).not.toContain("nodes:");
    explained = { ...explained, code: "POOL_AVAILABILITY", pools: [{ pool: "drivers", requested: 1 }] };
    const { out } = await muster("explain", "lease/train");
    expect(out.join("\n")).not.toMatch(/nodes:|MAX/);
    expect(asked).toEqual([]);
  });
});

describe("muster pools, with a pool that may grow", () => {
  it("shows the maximum, the booting nodes, and why no further node boots", async () => {
    const booting = [{ instanceType: "large", spot: true, count: 2, sinceMs: now - 40_000 }];
    await using _scaler = await scaler({}, [{ pool: "elastic", max: 8, booting, blockedCode: "UNAVAILABLE" }]);
    const { out, err } = await muster("pools");
    expect(out[0]).toMatch(/WAITING +MAX +BOOTING +WHY UNUSABLE$/);
    expect(out[1]).toMatch(/^drivers +1 +1 +0 +0 +0 +- +-$/);
    expect(out[2]).toMatch(/^elastic +0 +0 +0 +0 +1 +8 +2 large \(spot\) for (?:\d\d\.\ds|\dm\d\ds); UNAVAILABLE$/);
    expect(err).toEqual([]);
    const machine = await muster("pools", "-o", "json");
    const [drivers, elastic] = JSON.parse(machine.out.join("\n")) as object[];
    expect(drivers).not.toHaveProperty("scaling");
    expect(elastic).toMatchObject({
      elasticMax: 8,
      scaling: { booting: [{ count: 2, spot: true }], blocked: { code: "UNAVAILABLE" } },
    });
  });

  it("shows failed boots below the table, for the listed pools only", async () => {
    const failing = { pool: "elastic", code: "BOOT_FAILED", instanceType: "large", message: "no disk", boots: 3 };
    const troubles = [
      { ...failing, sinceMs: now - 3_600_000 },
      { ...failing, pool: "other" },
    ];
    await using _scaler = await scaler({}, [], troubles);
    const { out } = await muster("pools");
    expect(out.slice(3)).toEqual([
      "",
      "pool elastic: 3 boots of large on demand in a row failed to become nodes, since 1h00m ago: BOOT_FAILED (no disk)",
    ]);
    expect((await muster("get", "pools", "drivers")).out).toHaveLength(2);
    const [, elastic] = JSON.parse((await muster("pools", "-o", "json")).out.join("\n")) as object[];
    expect(elastic).toMatchObject({ scaling: { troubles: [{ code: "BOOT_FAILED", boots: 3 }] } });
  });

  it("reports how long the scaler was silent, once that is long", async () => {
    await using _scaler = await scaler({});
    pools = [{ name: "elastic", elasticMax: 8, elasticAtMs: now - 300_000 }];
    expect((await muster("pools")).err).toEqual([
      expect.stringMatching(/^note: the node scaler last reported 5m\S* ago/),
    ]);
  });

  it("shows all other information when the scaler does not answer, and reports its silence", async () => {
    const { code, out, err } = await muster("pools");
    expect(out[2]).toMatch(/^elastic +0 +0 +0 +0 +1 +8 +\?$/);
    expect(err).toEqual([expect.stringMatching(/^note: the node scaler does not answer: /)]);
    expect(code).toBe(0);
  });

  it("asks no scaler if no pool may grow", async () => {
    pools = [{ name: "drivers", available: 1, capacity: 1 }];
    const { out, err } = await muster("pools");
    expect([out[0], err]).toEqual([expect.not.stringContaining("MAX"), []]);
  });
});
