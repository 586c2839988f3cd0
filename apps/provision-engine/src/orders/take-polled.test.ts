import { FaultError, type Fault } from "@muster/faults";
import { digest } from "@muster/leases/keys";
import { expect, it } from "vitest";
import { makeLeaseRecord, makeOrder } from "../../test/a-lease.ts";
import type { LeaseRecord } from "../domain/lease.ts";
import { openLeaseRegistry } from "../holdings/lease-registry.ts";
import type { RequestDeps } from "./requests.ts";
import type { LeaseJob, LeaseSource } from "./poll-source.ts";
import { takePolled, type TakePolledDeps } from "./take-polled.ts";
import type { LeaseFeedback } from "../lead/report-lease.ts";

const NS_PER_DAY = 86_400_000_000_000n;
const policy = {
  engine: "main",
  verifySignatures: false,
  legacySignatures: false,
  maxOrderAgeNs: NS_PER_DAY,
  maxListedAgeNs: NS_PER_DAY,
  unsealedSecrets: false,
};
const order = makeOrder({ id: "1-1", createdNs: 1n, durationNs: NS_PER_DAY });

type Polled = {
  /** Stops the source while orders still wait. */
  readonly stop?: AbortSignal;
  readonly get?: RequestDeps["records"]["get"];
  readonly change?: RequestDeps["records"]["change"];
  readonly historyTaken?: () => void;
  readonly laterMs?: number;
  readonly jobs: readonly LeaseJob[] | AsyncIterable<LeaseJob>;
  readonly holdings?: RequestDeps["holdings"];
  readonly create?: RequestDeps["records"]["create"];
  readonly feedback?: TakePolledDeps["feedback"];
};

/** Takes all polled orders. */
async function takeAll({
  jobs,
  create,
  stop = new AbortController().signal,
  get = () => Promise.resolve(undefined),
  change = () => Promise.reject(new Error("no lease")),
  historyTaken = () => undefined,
  laterMs = 1,
  holdings = openLeaseRegistry({}, {}),
  feedback = () => Promise.resolve(),
}: Polled): Promise<string[]> {
  const failed: string[] = [];
  const source: LeaseSource = async function* () {
    await Promise.resolve();
    yield* jobs;
  };
  await takePolled(
    {
      requests: {
        records: {
          get,
          change,
          create: create ?? ((record) => Promise.resolve({ record, revision: 1 })),
        },
        nowNs: () => 2n,
        verify: () => true,
        digest,
        policy,
        quota: { maxLeases: 1, maxBytes: 65_536 },
        holdings,
      },
      feedback,
      sign: (result) => ({ ...result, signature: new Uint8Array() }),
      historyTaken,
      failed: (_, what) => failed.push(what),
      retryWaitingMs: laterMs,
    },
    source,
    stop,
  );
  return failed;
}

const ordered: Extract<LeaseJob, { kind: "order" }> = {
  kind: "order",
  source: "http",
  order,
  withdrawn: false,
  isAnswered: false,
};

/** Takes one order that the store refuses the first time with this fault. */
async function take(fault: Fault) {
  let tries = 0;
  const reported: LeaseFeedback[] = [];
  const create = (record: LeaseRecord) => {
    tries += 1;
    return tries === 1 ? Promise.reject(new FaultError(fault)) : Promise.resolve({ record, revision: 1 });
  };
  const failed = await takeAll({
    jobs: [ordered],
    create,
    feedback: (answer) => Promise.resolve(void reported.push(answer)),
  });
  return { tries, reported, failed };
}

it("retries an order without room until it is recorded", async () => {
  const full: Fault = { code: "limit_exceeded", what: "size of bucket leases", limit: 9, retryAfterMs: 1 };
  expect(await take(full)).toEqual({ tries: 2, reported: [], failed: ["retried"] });
});

it("reports an order that can never be recorded to its controller", async () => {
  const large: Fault = { code: "limit_exceeded", what: "value of leases/1-1", limit: 9, retryAfterMs: 0 };
  const { tries, reported, failed } = await take(large);
  expect({ tries, failed }).toEqual({ tries: 1, failed: ["refused"] });
  const message = "value of leases/1-1 is over its limit of 9";
  expect(reported).toMatchObject([{ id: "1-1", deleted: true, result: { state: "error", message } }]);
});

it("takes orders while a slow controller gets reports of invalid entries", async () => {
  const reported: string[] = [];
  const taken = Promise.withResolvers<undefined>();
  const unreadable = ["2-1", "2-2", "2-3"].map(
    (id) => ({ kind: "unreadable", source: "http", id, reason: "no" }) as const,
  );
  const failed = await takeAll({
    jobs: [...unreadable, ordered],
    create: (record) => {
      taken.resolve(undefined);
      return Promise.resolve({ record, revision: 1 });
    },
    feedback: async ({ id }) => {
      await taken.promise;
      reported.push(id);
    },
  });
  expect(reported).toEqual(["2-1", "2-2", "2-3"]);
  expect(failed).toEqual(["refused", "refused", "refused"]);
}, 5000);

/** The second order of a user with a limit of one lease; the first lease exists. */
const second = { ...ordered, order: { ...order, id: "1-2" } };
const over = makeLeaseRecord({ order, phase: "ENDED" });
const userWith = (first: LeaseRecord) => {
  const holdings = openLeaseRegistry({}, {});
  holdings.learn({ record: first, revision: 1 });
  return holdings;
};

it("takes an order over its user's limit once it fits, and orders of other users in the meantime", async () => {
  const holdings = userWith(makeLeaseRecord({ order, phase: "ACTIVE" }));
  const others = Array.from({ length: 70 }, (_, at) => ({ ...second, order: { ...order, id: `2-${at}` } }));
  const foreign = { ...ordered, order: { ...order, id: "3-1", user: "another" } };
  const [beside, all] = [Promise.withResolvers<undefined>(), Promise.withResolvers<undefined>()];
  const reported: LeaseFeedback[] = [];
  const taken: string[] = [];
  const stop = new AbortController();
  async function* jobs(): AsyncGenerator<LeaseJob> {
    yield* others;
    yield foreign;
    await beside.promise;
    holdings.learn({ record: over, revision: 2 });
    await all.promise;
    stop.abort();
  }
  const failed = await takeAll({
    stop: stop.signal,
    jobs: jobs(),
    holdings,
    feedback: (answer) => Promise.resolve(void reported.push(answer)),
    create: (record) => {
      taken.push(record.order.id);
      if (record.order.user === "another") beside.resolve(undefined);
      else all.resolve(undefined);
      return Promise.resolve({ record, revision: 1 });
    },
  });
  expect(taken).toHaveLength(2);
  expect(taken[0]).toBe("3-1");
  expect({ reported, kinds: new Set(failed) }).toEqual({ reported: [], kinds: new Set(["retried"]) });
}, 5000);

it("forgets a waiting order once it is listed as withdrawn", async () => {
  const holdings = userWith(makeLeaseRecord({ order, phase: "ACTIVE" }));
  const withdrawn = Promise.withResolvers<undefined>();
  const taken: string[] = [];
  async function* jobs(): AsyncGenerator<LeaseJob> {
    yield second;
    yield { ...second, withdrawn: true };
    await withdrawn.promise;
    holdings.learn({ record: over, revision: 2 });
    yield { ...ordered, order: { ...order, id: "1-3" } };
  }
  await takeAll({
    jobs: jobs(),
    holdings,
    feedback: ({ id }) => {
      if (id === "1-2") withdrawn.resolve(undefined);
      return Promise.resolve();
    },
    create: (record) => {
      taken.push(record.order.id);
      return Promise.resolve({ record, revision: 1 });
    },
  });
  expect(taken).toEqual(["1-3"]);
}, 5000);

const full: Fault = { code: "limit_exceeded", what: "size of bucket leases", limit: 9, retryAfterMs: 10_000 };

it("ends withdrawn leases while more orders than it takes concurrently find no room", async () => {
  const stop = new AbortController();
  const orders = Array.from({ length: 70 }, (_, at) => ({
    ...ordered,
    order: { ...order, id: `2-${at}`, user: `u${at}` },
  }));
  const withdrawn = { ...ordered, order: { ...order, id: "9-9" }, withdrawn: true };
  const active = { record: makeLeaseRecord({ order: withdrawn.order, source: "http" }), revision: 3 };
  const changed: string[] = [];
  await takeAll({
    stop: stop.signal,
    jobs: [...orders, withdrawn],
    create: () => Promise.reject(new FaultError(full)),
    get: (id) => Promise.resolve(id === "9-9" ? active : undefined),
    change: (stored, next) => {
      changed.push(`${next.order.id} ${next.phase}`);
      stop.abort();
      return Promise.resolve({ record: next, revision: stored.revision + 1 });
    },
  });
  expect(changed).toEqual(["9-9 DECOMMISSIONING"]);
}, 5000);

it("takes the later orders of a user only after a waiting one", async () => {
  const holdings = userWith(makeLeaseRecord({ order, phase: "ACTIVE" }));
  const taken: string[] = [];
  const volume = { ...order, type: "volume", data: '{"size":1,"type":"ssd"}' };
  const failed = await takeAll({
    laterMs: 50,
    jobs: (async function* () {
      await Promise.resolve();
      yield second;
      // Another type starts only after the earlier orders are settled, so the first order waits by now.
      yield { ...ordered, order: { ...volume, id: "4-1", user: "another" } };
      holdings.learn({ record: over, revision: 2 });
      yield { ...ordered, order: { ...volume, id: "1-3" } };
    })(),
    holdings,
    create: (record) => {
      taken.push(record.order.id);
      return Promise.resolve({ record: { ...record, phase: "ENDED" }, revision: 1 });
    },
  });
  expect(taken).toEqual(["4-1", "1-2", "1-3"]);
  expect(failed).toEqual(["retried", "retried"]);
}, 5000);

it("continues with waiting orders after its controller has ended", async () => {
  const holdings = userWith(makeLeaseRecord({ order, phase: "ACTIVE" }));
  const taken: string[] = [];
  await takeAll({
    jobs: (async function* () {
      await Promise.resolve();
      yield second;
      yield { ...ordered, order: { ...order, id: "4-1", user: "another" } };
      setImmediate(() => holdings.learn({ record: over, revision: 2 }));
    })(),
    holdings,
    create: (record) => {
      taken.push(record.order.id);
      return Promise.resolve({ record, revision: 1 });
    },
  });
  expect(taken.toSorted()).toEqual(["1-2", "4-1"]);
}, 5000);

it("reports the history as read only once none of its orders waits", async () => {
  const holdings = userWith(makeLeaseRecord({ order, phase: "ACTIVE" }));
  const seen: string[] = [];
  const written = Promise.withResolvers<undefined>();
  await takeAll({
    jobs: (async function* () {
      await Promise.resolve();
      yield second;
      yield { kind: "history-read", source: "http" } as const;
      seen.push("listed");
      holdings.learn({ record: over, revision: 2 });
      await written.promise;
    })(),
    holdings,
    historyTaken: () => seen.push("history"),
    create: (record) => {
      seen.push(record.order.id);
      written.resolve(undefined);
      return Promise.resolve({ record, revision: 1 });
    },
  });
  expect(seen).toEqual(["listed", "1-2", "history"]);
}, 5000);

it("refuses an order without room if too many wait already", async () => {
  const stop = new AbortController();
  const orders = Array.from({ length: 1100 }, (_, at) => ({ ...ordered, order: { ...order, id: `2-${at}` } }));
  const reported: LeaseFeedback[] = [];
  await takeAll({
    stop: stop.signal,
    jobs: (async function* () {
      await Promise.resolve();
      yield* orders;
      stop.abort();
    })(),
    create: () => Promise.reject(new FaultError(full)),
    feedback: (answer) => Promise.resolve(void reported.push(answer)),
  });
  const message = "number of waiting orders in the engine is over its limit of 1000";
  expect(reported.length).toBeGreaterThan(0);
  expect(reported.length).toBeLessThanOrEqual(100);
  expect(reported[0]).toMatchObject({ deleted: true, result: { state: "error" } });
  expect(reported[0]?.result?.message).toContain(message);
}, 10_000);
