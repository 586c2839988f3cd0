import { expect, it } from "vitest";
import { judgeRoom } from "./judge-room.ts";
import { judgeMachines } from "./judge-machines.ts";
import type { LedgerFact, RunObservations, PodSeen, RoomSeen } from "./observed.ts";

const amounts = (cpu: number): ReadonlyMap<string, number> => new Map([["cpu", cpu]]);

const ROOM: RoomSeen = {
  allocatable: new Map(["n-0", "n-1"].map((node) => [node, new Map([...amounts(4000), ["pods", 10]])])),
  residents: [{ name: "resident-0", node: "n-1", untilMs: 100 }],
  exceeded: new Map(),
};

function part(reservation: string, cpu: number, atMs = 1): LedgerFact {
  const parts = [{ node: "n-0", requests: amounts(cpu) }];
  return { kind: "granted", atMs, reservation, work: "j001", nodes: ["n-0"], parts };
}

function whole(reservation: string, node: string, atMs = 1): LedgerFact {
  return { kind: "granted", atMs, reservation, work: "s001", nodes: [node] };
}

function ended(reservation: string): LedgerFact {
  return { kind: "ended", atMs: 2, reservation };
}

it.each<{ title: string; ledger: readonly LedgerFact[]; room?: Partial<RoomSeen>; rules: readonly string[] }>([
  { title: "parts that fit together", ledger: [part("r1", 1000), part("r2", 3000)], rules: [] },
  {
    title: "parts that do not fit together",
    ledger: [part("r1", 2000), part("r2", 3000)],
    rules: ["granted parts fit into their node"],
  },
  {
    title: "a part after the end of another one",
    ledger: [part("r1", 2000), ended("r1"), part("r2", 3000)],
    rules: [],
  },
  {
    title: "a whole machine with a resident",
    ledger: [whole("r1", "n-1")],
    rules: ["no machine with foreign use is granted as a whole"],
  },
  { title: "a whole machine after the end of its resident", ledger: [whole("r1", "n-1", 101)], rules: [] },
  {
    title: "a node on which pods request more than it has",
    ledger: [],
    room: { exceeded: new Map([["n-0", "5000 cpu of 4000"]]) },
    rules: ["bound pods never request more than their node has"],
  },
])("judges $title", ({ ledger, room, rules }) => {
  expect(judgeRoom({ ledger, room: { ...ROOM, ...room } }).map(({ rule }) => rule)).toEqual(rules);
});

const TWO_OWNERS = "no machine has two owners in the ledger";

it.each<{ title: string; ledger: readonly LedgerFact[]; rules: readonly string[] }>([
  { title: "two parts", ledger: [part("r1", 1), part("r2", 1)], rules: [] },
  { title: "a whole machine with a part", ledger: [part("r1", 1), whole("r2", "n-0")], rules: [TWO_OWNERS] },
  { title: "a part of a held machine", ledger: [whole("r1", "n-0"), part("r2", 1)], rules: [TWO_OWNERS] },
  { title: "a whole machine after a part", ledger: [part("r1", 1), ended("r1"), whole("r2", "n-0")], rules: [] },
])("judges $title by its owners", ({ ledger, rules }) => {
  expect(judgeMachines(observed({ ledger })).map(({ rule }) => rule)).toEqual(rules);
});

const NEIGHBOURS = "no machine runs pods of two owners concurrently";

it.each<{ title: string; shared: readonly [boolean, boolean, boolean]; rules: readonly string[] }>([
  { title: "pods with parts", shared: [true, true, true], rules: [] },
  {
    title: "an exclusive pod beside later pods with parts",
    shared: [false, true, true],
    rules: [NEIGHBOURS, NEIGHBOURS],
  },
  { title: "an exclusive pod after pods with parts", shared: [true, true, false], rules: [NEIGHBOURS] },
])("judges $title on one machine", ({ shared, rules }) => {
  const pods = shared.map((isShared, index) => podOf(index, isShared));
  const ledger = [{ ...part("r1", 1), work: "j001" }];
  expect(judgeMachines(observed({ ledger, pods })).map(({ rule }) => rule)).toEqual(rules);
});

function podOf(index: number, isShared: boolean): PodSeen {
  return {
    name: `p-${index}`,
    uid: `u-${index}`,
    kind: "job",
    work: "j001",
    component: `worker-${index}`,
    firstSeenMs: 0,
    confirmed: true,
    isShared,
    node: "n-0",
    boundPlace: index + 1,
    endPlace: 10 + index,
    goneMs: undefined,
    states: [],
  };
}

function observed(changes: Partial<RunObservations>): RunObservations {
  return {
    sessions: new Map(),
    jobs: new Map(),
    acknowledged: new Set(),
    refused: new Map(),
    published: new Map(),
    pods: [],
    ledger: [],
    outages: [],
    podDeletions: [],
    faults: [],
    left: { pods: [], jobs: [], objects: [], reservations: [], machines: [], deadLetters: [], locks: [] },
    ...changes,
  };
}
