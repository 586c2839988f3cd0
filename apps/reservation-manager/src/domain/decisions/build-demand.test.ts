import { listAcceptedPools, hasOtherPools } from "@muster/resources";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { makeLargeLedger } from "../../../test/large-ledger.ts";
import {
  firstNodes,
  makeNode,
  operations,
  makeOwner,
  policy,
  makeRequest,
  startRun,
  stepRun,
  type LedgerRun,
} from "../../../test/random-world.ts";
import { buildDemand, MAX_DEMAND_NEEDS } from "./build-demand.ts";
import type { ReservationRequest } from "./check-request.ts";
import { countFreeReservations } from "../ledger/ledger.ts";
import { getReservation } from "../ledger/ledger.ts";
import { buildMachines, withCompleteness } from "../ledger/machines.ts";

/** Returns two pools with one held node each, and these requests waiting. */
function waiting(requests: readonly ReservationRequest[]): LedgerRun {
  const run = startRun([makeNode("a0", "a"), makeNode("b0", "b")]);
  stepRun(run, { kind: "reserve", request: makeRequest("h", ["a", "b"], { owner: makeOwner("h", "lease") }) });
  for (const request of requests) stepRun(run, { kind: "reserve", request });
  return run;
}

function list(run: LedgerRun, pools: readonly string[] = [], limit = 100) {
  const { reports, more } = buildDemand(run.world, policy, run.nowMs, { pools, limit });
  return { ids: reports.map(({ reservation }) => reservation.owner.id), more, reports };
}

const job = (id: string, pools: readonly string[], concurrencyLimit: number) =>
  makeRequest(id, pools, { owner: makeOwner(id, "job"), concurrencyLimit });

describe("demand for machines", () => {
  const cases: readonly {
    readonly title: string;
    readonly requests: readonly ReservationRequest[];
    readonly pools?: readonly string[];
    readonly limit?: number;
    readonly ids: readonly string[];
    readonly more?: number;
  }[] = [
    {
      title: "stands in the order of the queue: priority, then age",
      requests: [makeRequest("x", ["a"]), makeRequest("y", ["b"]), makeRequest("z", ["a"], { priority: 1 })],
      ids: ["oz", "ox", "oy"],
    },
    {
      title: "is left out when it needs none of the pools that are asked for",
      requests: [makeRequest("x", ["a"]), makeRequest("y", ["b"]), makeRequest("z", ["a", "b"])],
      pools: ["b", "none"],
      ids: ["oy", "oz"],
    },
    {
      title: "is counted where the list ends",
      requests: [makeRequest("x", ["a"]), makeRequest("y", ["a"]), makeRequest("z", ["a"])],
      limit: 1,
      ids: ["ox"],
      more: 2,
    },
    {
      title: "is of a kind with a limit no more than the limit leaves room for",
      requests: [job("j1", ["a"], 2), job("j2", ["b"], 2), job("j3", ["a"], 2), makeRequest("x", ["a"])],
      ids: ["oj1", "oj2", "ox"],
    },
    {
      title: "fills that room with what needs the pools that are asked for",
      requests: [job("j1", ["a"], 2), job("j2", ["b"], 2), job("j3", ["a"], 2), job("j4", ["a"], 2)],
      pools: ["a"],
      ids: ["oj1", "oj3"],
    },
    { title: "is nothing when nothing waits", requests: [], ids: [] },
  ];
  for (const { title, requests, pools, limit, ids, more = 0 } of cases)
    it(title, () => {
      expect(list(waiting(requests), pools, limit)).toMatchObject({ ids, more });
    });

  it("reports the remaining room of each kind with a limit", () => {
    const run = waiting([job("j1", ["a"], 2), makeRequest("x", ["a"])]);
    const rooms = () => buildDemand(run.world, policy, run.nowMs, { pools: [], limit: 1 }).rooms;
    expect(rooms()).toEqual([{ ownerKind: "job", room: 2 }]);
    stepRun(run, { kind: "node", facts: makeNode("a1", "a") });
    expect(rooms()).toEqual([{ ownerKind: "job", room: 1 }]);
  });

  it("omits kinds that have reached their limit", () => {
    const run = waiting([job("j1", ["a"], 1)]);
    stepRun(run, { kind: "node", facts: makeNode("a1", "a") });
    stepRun(run, { kind: "reserve", request: job("j2", ["a"], 1) });
    expect(list(run)).toMatchObject({ ids: [], more: 0 });
  });

  it("states why each of them waits, also while not all nodes are known", () => {
    const run = waiting([makeRequest("x", ["a"])]);
    expect(list(run).reports[0]?.because).toMatchObject({ code: "POOL_AVAILABILITY", pool: "a", available: 0 });
    run.world = { ...run.world, machines: withCompleteness(run.world.machines, false) };
    expect(list(run).reports[0]?.because).toMatchObject({ code: "POOLS_NOT_KNOWN_YET", pool: "a" });
  });

  it("is truncated if the needs of all requests exceed one message", () => {
    const run = startRun(Array.from({ length: 1000 }, (_, number) => makeNode(`a${number}`, "a")));
    for (let id = 0; id < 6; id += 1)
      stepRun(run, {
        kind: "reserve",
        request: makeRequest(
          id,
          Array.from({ length: 1000 }, () => "a"),
        ),
      });
    expect(MAX_DEMAND_NEEDS).toBe(4000);
    expect(list(run)).toMatchObject({ ids: ["o1", "o2", "o3", "o4"], more: 1 });
  });
});

it("lists the same as a walk over the whole queue, after any operations", () => {
  fc.assert(
    fc.property(
      operations,
      fc.uniqueArray(fc.constantFrom("a", "b", "c")),
      fc.integer({ min: 1, max: 4 }),
      (steps, pools, limit) => {
        const run = startRun(firstNodes);
        for (const operation of steps) stepRun(run, operation);
        const { ledger } = run.world;
        const ofKind = new Map<string, number>();
        const wanted = [...ledger.queue.places.keys()]
          .map(({ sequence }) => getReservation(ledger, sequence))
          .filter(
            ({ needs }) =>
              pools.length === 0 ||
              needs.some((need) => listAcceptedPools(need).some((pool) => pools.some((one) => one === pool))),
          )
          .filter(({ owner: { kind } }) => {
            const before = ofKind.get(kind) ?? 0;
            ofKind.set(kind, before + 1);
            return before < countFreeReservations(kind, ledger);
          });
        const { reports, more } = buildDemand(run.world, policy, run.nowMs, { pools, limit });
        expect(reports.map(({ reservation }) => reservation)).toEqual(wanted.slice(0, limit));
        const left = Math.max(0, wanted.length - limit);
        const mayCountTwice = wanted.some(({ needs }) => needs.some(hasOtherPools));
        expect(mayCountTwice ? Math.min(more, left) : more).toBe(left);
      },
    ),
  );
});

it("visits the kinds of requests and the listed requests, but not those behind them", () => {
  const ledger = makeLargeLedger(20_000);
  let looked = 0;
  const { reservations } = ledger;
  const counting = Object.create(reservations, {
    get: {
      value: (sequence: number) => {
        looked += 1;
        return reservations.get(sequence);
      },
    },
  }) as typeof reservations;
  const world = { ledger: { ...ledger, reservations: counting }, machines: buildMachines([], ledger) };
  const { reports, more } = buildDemand(world, policy, 0, { pools: ["pool-0"], limit: 50 });
  expect([reports.length, looked]).toEqual([50, 50]);
  expect(more).toBeGreaterThan(1000);
});
