import { matchesNode, findUntolerated, type NodeSelection } from "@muster/resources";
import fc from "fast-check";
import { expect, it } from "vitest";
import { optionsIn } from "../../../test/naive-ledger.ts";
import { PATIENT, startQueueRun, stepQueue } from "../../../test/queue-run.ts";
import { queueOperations } from "../../../test/random-queues.ts";
import {
  firstNodes,
  makeNode,
  operations,
  policy,
  startRun,
  stepRun,
  type Operation,
  type LedgerRun,
} from "../../../test/random-world.ts";
import { listOptions } from "../decisions/choose-option.ts";
import { findHold, findHolds } from "../decisions/find-hold.ts";
import { findObstacle } from "../decisions/fit.ts";
import { canHold, canHoldTogether } from "./can-hold.ts";
import { emptyLedger, evolveLedger, restoreLedger, type Ledger } from "./ledger.ts";
import {
  countUnusable,
  buildMachines,
  countCapacity,
  countLargest,
  countMaxMachines,
  findUnusable,
  findRoom,
  type Machines,
  type NodeFacts,
} from "./machines.ts";
import { planGrants } from "../decisions/plan-grants.ts";
import { countByPool, type Machine } from "./reservation.ts";
import { listAlternatives } from "./topology.ts";
import { runToEnd } from "./steps.ts";

function expectAccepted(facts: NodeFacts | undefined, selection: NodeSelection = { terms: [], tolerations: [] }): void {
  if (facts === undefined) throw new Error("a node that is not known was granted");
  expect(matchesNode(selection, facts)).toBe(true);
  for (const [resource, amount] of Object.entries(selection.minimum ?? {}))
    expect(facts.allocatable?.get(resource)).toBeGreaterThanOrEqual(amount);
  if (!facts.schedulable) expect(facts.taints).not.toEqual([]);
  expect(findUntolerated(facts.taints, selection.tolerations)).toBeUndefined();
}

function runAll(
  steps: readonly Operation[],
  after: (run: LedgerRun, operation: Operation) => void = () => undefined,
): LedgerRun {
  const run = startRun(firstNodes);
  for (const operation of steps) {
    stepRun(run, operation);
    after(run, operation);
  }
  return run;
}

/** Returns the observable state of a ledger without the version, which a snapshot does not keep. */
function show(ledger: Ledger): unknown {
  const { queue } = ledger;
  return {
    nextSequence: ledger.nextSequence,
    reservations: [...ledger.reservations.values()],
    owners: [...ledger.owners.entries()],
    holders: [...ledger.holders.entries()],
    parts: [...ledger.parts.entries()],
    grantedByKind: [...ledger.grantedByKind.entries()],
    limits: [...ledger.limits.entries()],
    queues: [...ledger.queues.entries()],
    use: { own: [...ledger.use.own.entries()], tree: [...ledger.use.tree.entries()] },
    admitted: [...ledger.admitted.entries()].map(([name, keys]) => [name, [...keys.keys()]]),
    leaving: [...ledger.leaving.keys()],
    beneficiaries: ledger.beneficiaries,
    byQueue: [...queue.byQueue.entries()].map(([name, { places, heads, classes }]) => [
      name,
      [...places.keys()],
      [...heads.keys()],
      [...classes.entries()].map(([key, { places: ofClass }]) => [key, [...ofClass.keys()]]),
    ]),
    places: [...queue.places.keys()],
    heads: [...queue.heads.entries()].map(([place, waiting]) => [place, [...waiting.places.keys()]]),
    groups: [...queue.groups.entries()].map(([key, { pools, shapes, shapesWithParts, kinds }]) => [
      key,
      pools,
      shapesWithParts,
      [...kinds.entries()].map(([kind, { waiting, heads }]) => [kind, waiting, [...heads.keys()]]),
      [...shapes.entries()].map(([counts, { needs, classes }]) => [
        counts,
        needs,
        [...classes.values()].map(({ places, ...waiting }) => [waiting, [...places.keys()]]),
      ]),
    ]),
    waitingByPool: [...queue.waitingByPool.entries()],
  };
}

function showMachines({ nodes, pools }: Machines): unknown {
  return {
    nodes: [...nodes.entries()],
    pools: [...pools.values()].map(({ free, partial, sizes, ...pool }) => ({
      ...pool,
      free: [...free.entries()],
      partial: [...partial.entries()],
      sizes: [...sizes.values()],
    })),
  };
}

/** Fits any generated need. */
const LARGE = new Map(Object.entries({ cpu: 100, memory: 100, pods: 100, "example.com/gpu": 100 }));

function granted(run: LedgerRun) {
  return [...run.world.ledger.reservations.values()].flatMap((reservation) =>
    reservation.grant === undefined ? [] : [{ reservation, machines: reservation.grant.machines }],
  );
}

it("grants no node to a second reservation while one holds it as a whole", () => {
  fc.assert(
    fc.property(operations, (steps) => {
      runAll(steps, (run) => {
        const held = granted(run).flatMap(({ machines }) => machines);
        const wholes = held.flatMap(({ node, shared }) => (shared === undefined ? [node] : []));
        const parts = new Set(held.flatMap(({ node, shared }) => (shared === undefined ? [] : [node])));
        expect(new Set(wholes).size).toBe(wholes.length);
        expect(wholes.filter((node) => parts.has(node))).toEqual([]);
      });
    }),
  );
});

it("grants every kind of work completely or not at all: for each component a machine of an accepted pool, or a part of one", () => {
  fc.assert(
    fc.property(operations, (steps) => {
      const run = runAll(steps);
      for (const { reservation, machines } of granted(run))
        expect(
          optionsIn(reservation).map(({ needs }) => needs.map(({ selection: _, ...need }) => need)),
        ).toContainEqual(machines.map(({ node: _, ...need }) => need));
    }),
  );
});

it("grants only nodes that are in the pool, ready, schedulable, without exclusive pods of others, and large enough for all their pods", () => {
  fc.assert(
    fc.property(operations, (steps) => {
      let seen = 0;
      const held = new Map<number, readonly Machine[]>();
      runAll(steps, (run) => {
        for (const event of run.events.slice(seen)) {
          if (event.kind === "released") held.delete(event.sequence);
          if (event.kind !== "granted") continue;
          const others = [...held.values()].flat();
          held.set(event.sequence, event.machines);
          const needs = run.world.ledger.reservations.get(event.sequence)?.needs;
          for (const { component, node, pool, shared } of event.machines) {
            const facts = run.nodes.get(node);
            expect(facts).toMatchObject({ pool, ready: true, cordoned: false });
            if (needs !== undefined)
              expectAccepted(facts, needs.find((need) => need.component === component)?.selection);
            if (shared !== undefined) continue;
            expect(facts).toMatchObject({ occupants: [], foreign: { pods: 0 } });
            expect(others.some((other) => other.node === node)).toBe(false);
            expect(event.machines.filter((other) => other.node === node)).toHaveLength(1);
          }
          for (const node of new Set(event.machines.flatMap(({ node, shared }) => (shared ? [node] : []))))
            expectRoom(
              run.nodes.get(node),
              others.filter((each) => each.node === node),
              event.machines.filter((each) => each.node === node),
            );
        }
        seen = run.events.length;
      });
    }),
  );
});

/**
 * Asserts that foreign pods and parts together fit into the allocatable amounts of the resources that the parts request. The node may have lost other resources
 * since the grant.
 */
function expectRoom(facts: NodeFacts | undefined, others: readonly Machine[], granted: readonly Machine[]): void {
  const parts = [...others, ...granted];
  if (facts?.allocatable === undefined) throw new Error("a part was granted of a node of unknown size");
  const { pods, requests } = facts.foreign;
  for (const [resource, most] of facts.allocatable) {
    const isPods = resource === "pods";
    if (!isPods && granted.every(({ shared }) => shared?.has(resource) !== true)) continue;
    const own = parts.map(({ shared }) => (shared?.get(resource) ?? 0) + (isPods ? 1 : 0));
    const used = own.reduce((sum, amount) => sum + amount, (requests.get(resource) ?? 0) + (isPods ? pods : 0));
    expect(used).toBeLessThanOrEqual(most);
  }
  for (const { shared } of granted)
    for (const [resource, amount] of shared ?? [])
      expect(amount).toBeLessThanOrEqual(facts.allocatable.get(resource) ?? 0);
}

it("counts every live node of a pool once: available never exceeds capacity and is never negative", () => {
  fc.assert(
    fc.property(operations, (steps) => {
      runAll(steps, (run) => {
        const { pools } = run.world.machines;
        const live = [...run.nodes.values()].flatMap(({ pool }) => (pool === undefined ? [] : [pool]));
        expect([...pools.keys()]).toEqual([...new Set([...live, ...run.scalings.keys()])].sort());
        for (const state of pools.values()) {
          const { name, free, held, shared, foreign, occupied, notReady, cordoned } = state;
          expect(Math.min(held, shared, foreign, occupied, notReady, cordoned)).toBeGreaterThanOrEqual(0);
          expect(free.size + held + shared).toBe(countCapacity(state));
          expect(countLargest(state)).toBe(countCapacity(state) + occupied + foreign);
          expect(countMaxMachines(state)).toBe(Math.max(countLargest(state), run.scalings.get(name)?.max ?? 0));
          expect(countLargest(state) + countUnusable(state)).toBe(live.filter((pool) => pool === name).length);
          expect([...findUnusable(run.world.machines, name)].length).toBe(occupied + foreign + countUnusable(state));
        }
      });
    }),
  );
});

it("updates the machines with the ledger without visiting all of them, in any order of the nodes", () => {
  fc.assert(
    fc.property(operations, fc.array(fc.nat(), { minLength: 20, maxLength: 20 }), (steps, numbers) => {
      const run = runAll(steps);
      const shuffled = [...run.nodes.values()]
        .map((facts, index) => ({ facts, at: numbers[index] ?? 0 }))
        .sort((a, b) => a.at - b.at)
        .map(({ facts }) => facts);
      const rebuilt = buildMachines(shuffled, run.world.ledger, run.scalings.values());
      expect(showMachines(rebuilt)).toEqual(showMachines(run.world.machines));
    }),
  );
});

it("makes the same decisions from the same inputs", () => {
  fc.assert(
    fc.property(operations, (steps) => {
      const [first, second] = [runAll(steps), runAll(steps)];
      expect(second.events).toEqual(first.events);
      expect(second.verdicts).toEqual(first.verdicts);
    }),
  );
});

function expectReplayed({ world: { ledger }, events }: LedgerRun): void {
  const replayed = events.reduce(evolveLedger, emptyLedger);
  expect(show(replayed)).toEqual(show(ledger));
  expect(replayed.version).toBe(ledger.version);
  const { reservations, nextSequence, limits, queues } = ledger;
  const rest = { limits: limits.entries(), queues: queues.values() };
  const restored = runToEnd(restoreLedger([...reservations.values()], nextSequence, rest));
  expect(show(restored)).toEqual(show(ledger));
}

it("rebuilds the same ledger from its events, and from its reservations", () => {
  fc.assert(
    fc.property(operations, (steps) => {
      expectReplayed(runAll(steps));
    }),
  );
});

it("rebuilds the same ledger with queues from its events, and from a snapshot, and then has nothing left to grant", () => {
  fc.assert(
    fc.property(queueOperations, (steps) => {
      const run = startQueueRun();
      for (const operation of steps) stepQueue(run, operation);
      expectReplayed(run);
      expect(planGrants(run.world, PATIENT, run.nowMs)).toEqual({ steps: [], complete: true });
    }),
  );
});

it("has no effect on error, nor when an owner repeats a request under the limit in force", () => {
  fc.assert(
    fc.property(operations, (steps) => {
      let before = 0;
      runAll(steps, (run, operation) => {
        const verdict = operation.kind === "reserve" ? run.verdicts.at(-1) : undefined;
        const limits = verdict?.kind === "answer" && verdict.events.some(({ kind }) => kind === "limited");
        if (verdict?.kind === "refuse" || (verdict?.kind === "answer" && !limits))
          expect(run.events.length).toBe(before);
        before = run.events.length;
      });
    }),
  );
});

it("does not release a newer reservation when the release of an earlier one comes late", () => {
  fc.assert(
    fc.property(operations, (steps) => {
      let before = 0;
      runAll(steps, (run, operation) => {
        if (operation.kind === "release" && operation.late === true) expect(run.events.length).toBe(before);
        before = run.events.length;
      });
    }),
  );
});

it("has nothing left to grant after a plan of grants", () => {
  fc.assert(
    fc.property(operations, (steps) => {
      runAll(steps, (run) => expect(planGrants(run.world, policy, run.nowMs)).toEqual({ steps: [], complete: true }));
    }),
  );
});

it("grants in the order of priority, then age, as a scan of every waiting request would", () => {
  fc.assert(
    fc.property(operations, (steps) => {
      runAll(steps, ({ world, nowMs }) => {
        const holds = findHolds(world, policy, nowMs);
        const passedOver = [...world.ledger.reservations.values()].filter(
          (reservation) =>
            reservation.grant === undefined &&
            listOptions(reservation).some(
              ({ demand, place }) => findObstacle(demand, place, world, holds) === undefined,
            ),
        );
        expect(passedOver).toEqual([]);
      });
    }),
  );
});

it("finds the same hold as a scan of every waiting request", () => {
  fc.assert(
    fc.property(operations, (steps) => {
      runAll(steps, ({ world, nowMs }) => {
        const first = [...world.ledger.queue.places.keys()].find((place) => {
          const reservation = world.ledger.reservations.get(place.sequence);
          if (reservation === undefined || nowMs - reservation.createdAtMs <= policy.holdAfterMs) return false;
          const limit = world.ledger.limits.get(reservation.owner.kind) ?? 0;
          const holders = world.ledger.grantedByKind.get(reservation.owner.kind) ?? 0;
          if (limit > 0 && holders >= limit) return false;
          const gangs = optionsIn(reservation).map((option) => ({ ...option, needs: countByPool(option.needs) }));
          return gangs
            .flatMap((gang) => listAlternatives(gang, world.machines))
            .some((needs) =>
              needs.every((need) => {
                const state = findRoom(world.machines, need);
                const ofPool = needs.filter(({ pool }) => pool === need.pool);
                return state !== undefined && canHold(state, need) && canHoldTogether(world.machines, ofPool);
              }),
            );
        });
        expect(findHold(world, policy, nowMs)?.place.sequence).toBe(first?.sequence);
      });
    }),
  );
});

it("grants every waiting request once everything else is released and the nodes are healthy", () => {
  fc.assert(
    fc.property(operations, (steps) => {
      const run = runAll(steps);
      for (const pool of ["a", "b", "c", "d"])
        for (const number of [0, 1, 2, 3])
          stepRun(run, {
            kind: "node",
            facts: makeNode(`${pool}${number}`, pool, { allocatable: LARGE, labels: { disk: "ssd", zone: "1" } }),
          });
      for (let turn = 0; turn < 100 && run.world.ledger.reservations.size > 0; turn += 1) {
        const holders = granted(run).map(({ reservation }) => reservation.owner);
        expect(holders.length).toBeGreaterThan(0);
        for (const owner of holders) stepRun(run, { kind: "release", owner });
      }
      expect(run.world.ledger.reservations.size).toBe(0);
    }),
  );
});

it("grants a kind at most the limit that was named last, whichever limit a request came with, and revokes nothing", () => {
  fc.assert(
    fc.property(operations, (steps) => {
      const [limits, kinds, holding] = [new Map<string, number>(), new Map<number, string>(), new Set<number>()];
      const { events, world } = runAll(steps);
      for (const event of events) {
        if (event.kind === "limited") limits.set(event.ownerKind, event.limit);
        if (event.kind === "requested") kinds.set(event.reservation.sequence, event.reservation.owner.kind);
        if (event.kind === "released") holding.delete(event.sequence);
        if (event.kind !== "granted") continue;
        const kind = kinds.get(event.sequence) ?? "";
        const ofKind = [...holding].filter((sequence) => kinds.get(sequence) === kind).length;
        expect(ofKind).toBeLessThan(limits.get(kind) || Number.POSITIVE_INFINITY);
        holding.add(event.sequence);
      }
      for (const [kind, limit] of world.ledger.limits.entries()) expect(limit).toBe(limits.get(kind));
    }),
  );
});

it("prevents starvation: an overdue request is granted after the releases that it needs, despite later requests", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 2, max: 6 }),
      fc.array(fc.integer({ min: 1, max: 3 }), { minLength: 0, maxLength: 30 }),
      (size, newcomers) => {
        const run = startRun();
        for (let number = 0; number < size; number += 1)
          stepRun(run, {
            kind: "node",
            facts: makeNode(`n${number}`, "a"),
          });
        const reserve = (id: string, count: number, priority = 0): void => {
          const needs = Array.from({ length: count }, (_, index) => ({ component: `c${index}`, pool: "a" }));
          const owner = { kind: "session", id };
          stepRun(run, { kind: "reserve", request: { owner, needs, wait: true, priority, concurrencyLimit: 0 } });
        };
        for (let number = 0; number < size; number += 1) reserve(`first${number}`, 1);
        reserve("large", size);
        stepRun(run, { kind: "wait", ms: policy.holdAfterMs + 1 });
        for (const [index, count] of newcomers.entries()) reserve(`small${index}`, Math.min(count, size));
        for (let number = 0; number < size; number += 1) {
          stepRun(run, { kind: "release", owner: { kind: "session", id: `first${number}` } });
          reserve(`late${number}`, 1, -1);
        }
        expect(granted(run).map(({ reservation }) => reservation.owner.id)).toEqual(["large"]);
      },
    ),
  );
});
