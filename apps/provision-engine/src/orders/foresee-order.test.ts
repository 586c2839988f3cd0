import { FaultError, type Fault } from "@muster/faults";
import type { Order } from "@muster/leases";
import { expect, it } from "vitest";
import { makeLeaseRecord, makeOrder } from "../../test/a-lease.ts";
import type { EngineCapacity } from "../domain/claim.ts";
import type { LeaseRecord, LeasePhase } from "../domain/lease.ts";
import { foreseeOrder, type ForeseeDeps } from "./foresee-order.ts";
import { openLeaseRegistry } from "../holdings/lease-registry.ts";

const SMALL = '"image":"i","capacity":{"cpu":1,"memory":1024}';
const ZDB = '{"size":1,"mode":"user","disk_type":"ssd"}';
const network = (id = "2-1"): Order => makeOrder({ id, type: "network", data: '{"name":"net"}' });
const container = (more = "", id = "1-1"): Order => makeOrder({ id, type: "container", data: `{${SMALL}${more}}` });
const mounting = container(',"mounts":[{"volume_id":"3-1","mountpoint":"/d"}]');
const volume = makeOrder({ id: "3-1", type: "volume", data: '{"size":1,"type":"ssd"}' });
const WITHIN = ',"network":"net"';

type World = {
  readonly before?: readonly Order[];
  readonly fault?: Fault;
  readonly capacity?: EngineCapacity;
  readonly phase?: LeasePhase;
  /** The leases that exist already. */
  readonly there?: readonly Pick<LeaseRecord, "order" | "phase">[];
};

function foresee(
  order: Order,
  { before = [], fault, capacity = {}, phase = "ORDERED", there = [] }: World = {},
): Promise<string> {
  const preflight = () => (fault === undefined ? Promise.resolve() : Promise.reject(new FaultError(fault)));
  const holdings = openLeaseRegistry(capacity, {});
  for (const each of there) holdings.learn({ record: makeLeaseRecord(each), revision: 1 });
  const deps: ForeseeDeps = {
    workloads: new Map(["network", "container", "machine"].map((type) => [type, { preflight }])),
    around: holdings.around,
    overheads: {},
    phaseOf: (id) => holdings.find(id)?.phase,
    referencedBy: () => undefined,
    policy: { tombstoneNs: 1n, crash: { windowNs: 1n }, maxOrderAgeNs: 1_000_000n, maxListedAgeNs: 1_000_000n },
    nowNs: () => 2_000n,
  };
  return foreseeOrder(deps, makeLeaseRecord({ order, phase }), before, new AbortController().signal);
}

it.each<[string, Order, World, string]>([
  ["invalid data", makeOrder({ type: "machine", data: '{"pool":"a"}' }), {}, "data.machines"],
  ["a type that is not served", makeOrder({ type: "zdb", data: ZDB }), {}, "not served: zdb"],
  ["a network that is not ordered", container(WITHIN), {}, "no active network net"],
  ["a network of another user", container(WITHIN), { before: [{ ...network(), user: "other" }] }, "no active"],
  ["a volume that is not ordered", mounting, {}, "volume 3-1"],
  ["a volume whose order failed", mounting, { there: [{ order: volume, phase: "FAILED" }] }, "volume 3-1"],
  [
    "more than the earlier retried orders leave free",
    container(),
    {
      capacity: { cru: 1n },
      before: [container("", "1-2")],
      there: [{ order: container("", "1-2"), phase: "FAILED" }],
    },
    "1 of CRU needed, 0 free",
  ],
  [
    "a second network of one name",
    network("2-2"),
    { before: [network()] },
    "lease 2-1 of this user already has network net",
  ],
  ["more than is free", container(), { capacity: { cru: 0n } }, "1 of CRU needed, 0 free"],
  [
    "more than the earlier orders leave free",
    container(),
    { capacity: { cru: 2n }, before: [container("", "1-2"), container("", "1-3")] },
    "1 of CRU needed, 0 free",
  ],
  [
    "an order that its workload refuses permanently",
    container(),
    { fault: { code: "pool_capacity", pool: "a", requested: 7, capacity: 6 } },
    "7",
  ],
])("predicts of %s why an order would fail", async (_what, order, world, because) => {
  expect(await foresee(order, world)).toContain(because);
});

it.each<[string, Order, World]>([
  ["a served order that fits", container(), { capacity: { cru: 1n } }],
  ["a network that is ordered before", container(WITHIN), { before: [network()] }],
  [
    "an order that fits beside earlier ones that exist",
    container(),
    {
      capacity: { cru: 2n },
      before: [container("", "1-2")],
      there: [{ order: container("", "1-2"), phase: "ACTIVE" }],
    },
  ],
  [
    "an order that fits beside earlier ones that have ended",
    container(),
    { capacity: { cru: 1n }, before: [container("", "1-2")], there: [{ order: container("", "1-2"), phase: "ENDED" }] },
  ],
  [
    "an order that fits beside earlier ones that take over existing leases",
    container(),
    {
      capacity: { cru: 2n },
      before: [{ ...container("", "1-3"), reference: "1-2" }],
      there: [{ order: container("", "1-2"), phase: "ACTIVE" }],
    },
  ],
  [
    "a mount of a volume whose order failed and is retried before",
    mounting,
    { before: [volume], there: [{ order: volume, phase: "FAILED" }] },
  ],
  [
    "an order that waits for machines",
    container(),
    { fault: { code: "unavailable", dependency: "ledger", retryAfterMs: 1 } },
  ],
])("predicts no failure of %s", async (_what, order, world) => {
  expect(await foresee(order, world)).toBe("");
});

it("predicts nothing for an existing lease", async () => {
  const none = { capacity: { cru: 0n } };
  expect(await foresee(container(), none)).not.toBe("");
  expect(await foresee(container(), { ...none, phase: "ACTIVE" })).toBe("");
});
