import { FaultError, type Fault } from "@muster/faults";
import type { LedgerCalls, Need, Reservation } from "@muster/ledger-client";
import type { QueueChoice } from "@muster/ledger-client/choose-queue";
import { buildPodDefaults } from "@muster/resources";
import { expect, it } from "vitest";
import { makeComponent, makeRecord, makeSpec } from "../../test/samples.ts";
import type { SessionRecord } from "../domain/session.ts";
import { performStep, type ActDeps } from "./act.ts";

const GPU = { key: "gpu", operator: "Exists" };
const template = (fields: object) => JSON.stringify({ spec: fields });
const containers = [{ name: "main", resources: { requests: { cpu: "500m", memory: "1Ki" } } }];
const SESSION = makeRecord(
  {},
  makeSpec({
    components: [
      makeComponent("driver", "driver", { templateJson: template({ tolerations: [GPU] }) }),
      makeComponent("server-0", "server", { shared: true, templateJson: template({ containers }) }),
    ],
  }),
);
const SELECTION = { terms: [], tolerations: [GPU] };
const DRIVER: Need = { component: "driver", pool: "drivers", selection: SELECTION };
const SERVER: Need = { component: "server-0", pool: "workers", shared: { cpu: 500, memory: 1024 } };
const PLAIN = [DRIVER, SERVER].map(({ component: name, pool }) => ({ component: name, pool }));

/** Creation time of the ledger's reservation. */
const CREATED_MS = 1;

type World = {
  readonly choice?: QueueChoice;
  /** The domain of the reservation in the ledger. */
  readonly domain?: Pick<Extract<Reservation, { readonly state: "granted" }>, "topology" | "domain">;
};

/** Reserves in a ledger that answers with a fault, or grants; `existing` are the needs of the ledger's existing reservation. */
function reserving(
  fault: Fault | undefined,
  existing: readonly Need[] = PLAIN,
  session = SESSION,
  podDefaults?: ActDeps["podDefaults"],
  { choice = { kind: "none" }, domain = {} }: World = {},
) {
  const asked: (readonly Need[])[] = [];
  const options: Parameters<LedgerCalls["reserve"]>[2][] = [];
  const reservation = (needs: readonly Need[]): Reservation => {
    const machines = needs.map((need) => ({ component: need.component, pool: need.pool, node: "n-1" }));
    return {
      id: "r-1",
      ownerId: "bench",
      sequence: 1,
      revision: 0,
      createdAtMs: CREATED_MS,
      needs,
      state: "granted",
      machines,
    };
  };
  const ledger: Pick<LedgerCalls, "reserve" | "ask"> = {
    reserve: (_owner, needs, more) => {
      asked.push(needs);
      options.push(more);
      return fault === undefined ? Promise.resolve(reservation(needs)) : Promise.reject(new FaultError(fault));
    },
    ask: () => Promise.resolve({ ...reservation(existing), ...domain, queue: "team-a" }),
  };
  const deps = {
    ledger: { sessions: ledger, replacements: ledger },
    podPolicy: { poolLabel: "pool" },
    maxExecutors: 1,
    podDefaults,
    chooseQueue: () => Promise.resolve(choice),
  };
  const step = async (of: Parameters<typeof performStep>[2]) => {
    const acted = await performStep(deps as unknown as ActDeps, session, of, () => true);
    return "reservation" in acted ? acted.reservation : undefined;
  };
  return { asked, options, step };
}

const RESERVE = { kind: "reserve", because: "not-asked" } as const;
const DIFFERS: Fault = { code: "reservation_differs", ownerKind: "session", ownerId: "bench" };

it("requests a part of a machine for each shared component, with the nodes that its template accepts", async () => {
  const { asked, step } = reserving(undefined);
  expect(await step(RESERVE)).toMatchObject({ state: "granted", id: "r-1" });
  expect(asked).toEqual([[DRIVER, SERVER]]);
});

it("requests a whole machine that holds its component's requests, and adopts a reservation without this minimum", async () => {
  const templateJson = template({ tolerations: [GPU], containers });
  const session = makeRecord({}, makeSpec({ components: [makeComponent("driver", "driver", { templateJson })] }));
  const { asked, step } = reserving(DIFFERS, [DRIVER], session);
  expect(await step(RESERVE)).toMatchObject({ state: "granted" });
  expect(asked).toEqual([[{ ...DRIVER, selection: { ...SELECTION, minimum: { cpu: 500, memory: 1024 } } }]]);
  const other = { ...DRIVER, selection: { ...SELECTION, minimum: { cpu: 1000 } } };
  expect(await reserving(DIFFERS, [other], session).step(RESERVE)).toMatchObject({ state: "refused" });
});

it("requests what admission adds to its pods, and adopts a reservation from before a change of the defaults", async () => {
  const podDefaults = () => buildPodDefaults([{ name: "a", limits: [{ type: "Container", min: { gpus: "1" } }] }], []);
  const { asked, step } = reserving(
    DIFFERS,
    [DRIVER, { ...SERVER, shared: { cpu: 500, memory: 4096 } }],
    SESSION,
    podDefaults,
  );
  expect(await step(RESERVE)).toMatchObject({ state: "granted" });
  expect(asked).toEqual([[DRIVER, { ...SERVER, shared: { cpu: 500, gpus: 1, memory: 1024 } }]]);
});

it("requests the same for a replacement machine", async () => {
  const { asked, step } = reserving(undefined);
  await step({ kind: "reserve-replacement", component: "server-0", pool: "workers", because: "machine-lost" });
  expect(asked).toEqual([[SERVER]]);
});

it("requests a replacement machine elsewhere than on nodes that rejected the component's pods", async () => {
  const { asked, step } = reserving(undefined);
  const rejectedBy = ["node-1", "node-2"];
  const lost = { component: "server-0", pool: "workers", rejectedBy, because: "machine-lost" } as const;
  await step({ kind: "reserve-replacement", ...lost });
  const matchFields = [{ key: "metadata.name", operator: "NotIn", values: rejectedBy }];
  expect(asked).toEqual([[{ ...SERVER, selection: { terms: [{ matchFields }], tolerations: [] } }]]);
});

it.each<[string, readonly Need[], string]>([
  ["takes the reservation of an earlier version, which has neither parts nor node selections", PLAIN, "granted"],
  ["refuses one with other parts", [DRIVER, { ...SERVER, shared: { cpu: 1 } }], "refused"],
  [
    "refuses one with other node selections",
    [{ ...DRIVER, selection: { terms: [], tolerations: [] } }, SERVER],
    "refused",
  ],
  ["refuses one of other pools", [{ ...DRIVER, pool: "x", selection: undefined }, PLAIN[1]!], "refused"],
  ["refuses one for fewer components", PLAIN.slice(1), "refused"],
])("%s", async (_title, existing, state) => {
  const { step } = reserving(DIFFERS, existing);
  expect(await step(RESERVE)).toMatchObject({ state });
});

it("is refused permanently for a limit of the ledger, with a text that names the nodes that were not enough", async () => {
  const limit = reserving({ code: "limit_exceeded", what: "node selections", limit: 16, retryAfterMs: 0 });
  expect(await limit.step(RESERVE)).toMatchObject({
    state: "refused",
    text: expect.stringContaining("limit of 16") as string,
  });
  const full = reserving({ code: "limit_exceeded", what: "requests", limit: 16, retryAfterMs: 1000 });
  await expect(full.step(RESERVE)).rejects.toThrow();
  const small = reserving({ code: "pool_capacity", pool: "drivers", requested: 1, capacity: 0 });
  expect(await small.step(RESERVE)).toMatchObject({ text: expect.stringContaining("(tolerates gpu)") as string });
});

const TEAM_A: QueueChoice = { kind: "queue", name: "team-a" };
const UNKNOWN: QueueChoice = { kind: "unknown", message: "no queue serves the namespace" };

it.each([
  [50, { queue: "team-a", maxPriority: 10 }],
  [10, undefined],
])("knows whether its queue lowers the priority %i", async (priority, lowered) => {
  const session = makeRecord({}, makeSpec({ priority }));
  const choice: QueueChoice = { kind: "queue", name: "team-a", maxPriority: 10 };
  const seen = await reserving(undefined, PLAIN, session, undefined, { choice }).step(RESERVE);
  expect(seen).toMatchObject({ state: "granted" });
  expect(seen && "lowered" in seen ? seen.lowered : undefined).toEqual(lowered);
});

it("requests its machines in its queue, and that of the reservation for a machine in place of a lost one", async () => {
  const chosen = reserving(undefined, PLAIN, SESSION, undefined, { choice: TEAM_A });
  await chosen.step(RESERVE);
  expect(chosen.options).toEqual([expect.objectContaining({ queue: "team-a", notPreemptible: true })]);
  const without = reserving(undefined);
  await without.step(RESERVE);
  expect(without.options[0]).not.toHaveProperty("queue");
  const moved = reserving(undefined, PLAIN, SESSION, undefined, { choice: { kind: "queue", name: "team-b" } });
  await moved.step({ kind: "reserve-replacement", component: "server-0", pool: "workers", because: "machine-lost" });
  expect(moved.options).toEqual([expect.objectContaining({ queue: "team-a", notPreemptible: true })]);
});

const RACK = { topology: "rack", domain: "b" };
const IN_RACK_B = { matchExpressions: [{ key: "rack", operator: "In", values: ["b"] }] };
const ONE_TOPOLOGY = { topology: "rack" };
const ONE_RACK = makeRecord({}, { ...SESSION.spec, ...ONE_TOPOLOGY });

const POOL_OF = { driver: "drivers", "server-0": "workers" } as const;

it("requests its machines with its topology, and in the domain of the grant for a machine in place of a lost one", async () => {
  const { options, step } = reserving(undefined, PLAIN, ONE_RACK);
  await step(RESERVE);
  expect(options).toEqual([expect.objectContaining({ topology: "rack" })]);
  const lost = reserving(undefined, PLAIN, ONE_RACK, undefined, { domain: RACK });
  for (const name of ["driver", "server-0"] as const)
    await lost.step({ kind: "reserve-replacement", component: name, pool: POOL_OF[name], because: "machine-lost" });
  expect(lost.asked).toEqual([
    [{ ...DRIVER, selection: { terms: [IN_RACK_B], tolerations: [GPU] } }],
    [{ ...SERVER, selection: { terms: [IN_RACK_B], tolerations: [] } }],
  ]);
  expect(lost.options).toEqual([expect.not.objectContaining(ONE_TOPOLOGY), expect.not.objectContaining(ONE_TOPOLOGY)]);
});

it("takes no reservation of another topology", async () => {
  const without = reserving(DIFFERS, PLAIN, ONE_RACK);
  expect(await without.step(RESERVE)).toMatchObject({ state: "refused" });
  const other = reserving(DIFFERS, PLAIN, SESSION, undefined, { domain: RACK });
  expect(await other.step(RESERVE)).toMatchObject({ state: "refused" });
  const same = reserving(DIFFERS, PLAIN, ONE_RACK, undefined, { domain: RACK });
  expect(await same.step(RESERVE)).toMatchObject({ state: "granted" });
});

it("requests nothing while its queue is not known, and keeps what it has", async () => {
  const { asked, step } = reserving(undefined, PLAIN, SESSION, undefined, { choice: UNKNOWN });
  expect(await step(RESERVE)).toEqual({ state: "unqueued", text: "no queue serves the namespace" });
  const early = reserving(undefined, PLAIN, SESSION, undefined, { choice: { kind: "unlisted" } });
  expect(await early.step(RESERVE)).toEqual({ state: "unqueued", text: "the queues are not known yet" });
  const held = reserving(undefined, PLAIN, { ...SESSION, reservationId: "r-1" }, undefined, { choice: UNKNOWN });
  expect(await held.step(RESERVE)).toMatchObject({ state: "granted", id: "r-1" });
  const former = reserving(undefined, PLAIN, { ...SESSION, reservationId: "r-0" }, undefined, { choice: UNKNOWN });
  expect(await former.step(RESERVE)).toMatchObject({ state: "unqueued" });
  expect([asked, early.asked, held.asked, former.asked].flat()).toEqual([]);
});

it("adopts a reservation that it made before its process died, but none of an earlier session of its name", async () => {
  const { createdAtMs } = SESSION;
  for (const choice of [UNKNOWN, { kind: "unlisted" } as const]) {
    const own = reserving(undefined, PLAIN, { ...SESSION, createdAtMs: CREATED_MS }, undefined, { choice });
    expect(await own.step(RESERVE)).toMatchObject({ state: "granted", id: "r-1" });
    const earlier = reserving(undefined, PLAIN, { ...SESSION, createdAtMs }, undefined, { choice });
    expect(await earlier.step(RESERVE)).toMatchObject({ state: "unqueued" });
    expect([own.asked, earlier.asked].flat()).toEqual([]);
  }
});

it.each<[Fault, string]>([
  [{ code: "queue_unknown", queue: "team-a" }, "queue team-a does not exist"],
  [{ code: "quota_exceeded", queue: "team-a", pool: "p", resource: "cpu", requested: 2, most: 1 }, "team-a"],
])("waits without a reservation where the ledger answers %j", async (fault, text) => {
  const { step } = reserving(fault, PLAIN, SESSION, undefined, { choice: TEAM_A });
  expect(await step(RESERVE)).toEqual({ state: "unqueued", text: expect.stringContaining(text) as string });
});

const ANY = makeComponent("driver", "driver", { pool: "h100", otherPools: ["a100", "l40s"] });
const OF_ANY: Need = { component: "driver", pool: "h100", otherPools: ["a100", "l40s"] };
const ANY_POOL = makeRecord({}, makeSpec({ components: [ANY] }));

it("requests machines of any of several pools, and one of the granted pool in place of a lost one", async () => {
  const { asked, step } = reserving(undefined, [OF_ANY], ANY_POOL);
  await step(RESERVE);
  await step({ kind: "reserve-replacement", component: "driver", pool: "a100", because: "machine-lost" });
  expect(asked).toEqual([[OF_ANY], [{ component: "driver", pool: "a100" }]]);
});

it.each<[string, readonly string[] | undefined, SessionRecord, string]>([
  ["takes a reservation of an earlier version, which has the first pool alone", undefined, ANY_POOL, "granted"],
  ["takes its own", ["a100", "l40s"], ANY_POOL, "granted"],
  ["refuses one that prefers another pool", ["l40s", "a100"], ANY_POOL, "refused"],
  [
    "refuses one that accepts other pools",
    ["a100"],
    makeRecord({}, makeSpec({ components: [{ ...ANY, otherPools: [] }] })),
    "refused",
  ],
])("%s", async (_title, otherPools, session, state) => {
  const existing = [{ component: "driver", pool: "h100", ...(otherPools && { otherPools }) }];
  expect(await reserving(DIFFERS, existing, session).step(RESERVE)).toMatchObject({ state });
});
