import { expect, it } from "vitest";
import type { Lease, Reservation, ReservationExplanation, Session } from "../adapters/messages.ts";
import { estimateStart, latestEnds } from "./estimate-start.ts";

const holder = (id: string, machines: number, parts = 0) => ({ owner: { kind: "session", id }, machines, parts });
const pool = (fields: object) => ({
  pool: "gpu",
  requested: 4,
  available: 1,
  capacity: 8,
  parts: [],
  holders: [],
  ...fields,
});
const explained = (fields: object): ReservationExplanation =>
  ({
    code: "POOL_AVAILABILITY",
    place: { ahead: 0 },
    pools: [pool({ holders: [holder("a", 2), holder("b", 2), holder("c", 3)] })],
    preempted: [],
    preemptedMore: 0,
    ...fields,
  }) as unknown as ReservationExplanation;
const ENDS = new Map([
  ["session/a", 300],
  ["session/b", 100],
  ["session/c", 200],
]);

it.each<[title: string, fields: object, shown: string]>([
  ["is when enough machines are free, the earliest ends first", {}, "200 session/c ends by then"],
  ["is unknown behind others", { place: { ahead: 2 } }, "undefined 2 requests go first"],
  [
    "is unknown while the machines that lack have no deadline",
    { pools: [pool({ holders: [holder("a", 2), holder("forever", 5)] })] },
    "undefined session/forever has no deadline",
  ],
  [
    "is unknown where holders are not listed",
    { pools: [pool({ holders: [holder("a", 1)] })] },
    "undefined not all holders of gpu are listed",
  ],
  ["is unknown beyond the pool", { pools: [pool({ requested: 9 })] }, "undefined gpu has 8 machines now"],
  ["is unknown for parts", { pools: [pool({ parts: [{}] })] }, "undefined it needs parts of machines of gpu"],
  ["is unknown for quota", { code: "WAITING_FOR_QUOTA" }, "undefined what it waits for has no deadline"],
  [
    "is when the limit of its kind and the pools allow it",
    { code: "CONCURRENCY_LIMIT", concurrency: { limit: 2, granted: 2, holders: [holder("c", 1), holder("b", 1)] } },
    "200 session/c ends by then",
  ],
  [
    "is when the limit of its kind allows one more",
    {
      code: "CONCURRENCY_LIMIT",
      concurrency: { limit: 1, granted: 1, holders: [holder("a", 1)] },
      pools: [pool({ available: 4 })],
    },
    "300 session/a ends by then",
  ],
  [
    "is unknown if owners that count against the limit are not listed",
    { code: "CONCURRENCY_LIMIT", concurrency: { limit: 1, granted: 2, holders: [holder("a", 1)] } },
    "undefined not all holders are listed",
  ],
  [
    "is when the last of the preempted work has left",
    { code: "WAITING_FOR_PREEMPTED", place: { ahead: 9 }, preempted: [holder("b", 1), holder("a", 1)] },
    "300 session/a ends by then",
  ],
  [
    "is unknown if the preempted work has no deadline",
    { code: "WAITING_FOR_PREEMPTED", preempted: [holder("b", 1), holder("x", 1)] },
    "undefined session/x has no deadline",
  ],
  ["is unknown for a request that does not wait", { code: "" }, "undefined the request does not wait"],
  ["is unknown without a pool", { pools: [] }, "undefined the ledger names nothing that it waits for"],
])("the start %s", (_, fields, shown) => {
  const { byMs, because } = estimateStart(explained(fields), ENDS);
  expect(`${byMs} ${because}`).toBe(shown);
});

it("knows the earliest deadline of each owner", () => {
  const reservations = [
    { owner: { kind: "session", id: "a" }, preemption: { deadlineMs: 50 } },
    { owner: { kind: "job", id: "j" } },
  ];
  const sessions = [
    {
      name: "a",
      spec: { timeoutMs: 1000 },
      events: [
        { kind: "QUEUE", atMs: 1 },
        { kind: "PROVISION", atMs: 5 },
      ],
    },
    { name: "b", spec: { timeoutMs: 1000 }, events: [{ kind: "PROVISION", atMs: 5 }] },
    { name: "waits", spec: { timeoutMs: 1000 }, events: [] },
    { name: "endless", spec: { timeoutMs: 0 }, events: [{ kind: "PROVISION", atMs: 5 }] },
  ];
  const leases = [{ record: { order: { id: "3-1" }, expiresAt: "1970-01-01T00:00:09Z" } }];
  const ends = latestEnds(
    reservations as unknown as Reservation[],
    sessions as unknown as Session[],
    leases as unknown as Lease[],
  );
  expect([...ends]).toEqual([
    ["session/a", 50],
    ["session/b", 1005],
    ["lease/3-1", 9000],
  ]);
});
