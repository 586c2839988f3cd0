import { describe, expect, it } from "vitest";
import { listUnconfirmedTwins } from "./judge-machines.ts";
import { judgeRun } from "./judge-run.ts";
import type { EventSeen, RunObservations, PodSeen, SessionSeen } from "./observed.ts";
import { planSessionShapes, type SessionShape } from "./plan-session-shapes.ts";

const [ANY] = planSessionShapes(1, { sessions: 1, windowMs: 0, pools: {} });
const GOOD: SessionShape = { ...ANY!, name: "s001", intent: "good", cancel: undefined };
const KINDS = ["QUEUE", "ACCEPT", "PROVISION", "RUN", "DONE"];

function events(kinds: readonly string[]): EventSeen[] {
  return kinds.map((kind, index) => ({ kind, atMs: 1000 + index, reason: "", description: "" }));
}

const DONE: SessionSeen = {
  name: "s001",
  createdAtMs: 1000,
  finishedAtMs: 1004,
  events: events(KINDS),
  components: [],
  resultJson: '{"session":"s001"}',
  warnings: [],
  waitingBecause: "",
};

const POD: PodSeen = {
  name: "s001-driver",
  uid: "u1",
  kind: "session",
  work: "s001",
  component: "driver",
  firstSeenMs: 1001,
  confirmed: true,
  node: "drivers-0",
  boundPlace: 2,
  endPlace: 4,
  goneMs: 1003,
  states: [],
};

const GRANT = { kind: "granted", atMs: 1001, reservation: "r1", work: "s001", nodes: ["drivers-0"] } as const;

const CLEAN: RunObservations = {
  sessions: new Map([["s001", DONE]]),
  jobs: new Map(),
  acknowledged: new Set(["s001"]),
  refused: new Map(),
  published: new Map([["s001", new Set(KINDS)]]),
  pods: [POD],
  ledger: [GRANT, { kind: "ended", atMs: 1004, reservation: "r1" }],
  outages: [],
  podDeletions: [],
  faults: [],
  left: { pods: [], jobs: [], objects: [], reservations: [], machines: [], deadLetters: [], locks: [] },
};

function withSession(changes: Partial<SessionSeen>): Partial<RunObservations> {
  const session = { ...DONE, ...changes };
  return {
    sessions: new Map([["s001", session]]),
    published: new Map([["s001", new Set(session.events.map(({ kind }) => kind))]]),
  };
}

const rules = (observed: RunObservations, shape = GOOD): string[] =>
  judgeRun({ shapes: [shape], jobs: [] }, observed).map(({ rule }) => rule);

describe("judgeRun", () => {
  it("finds no violation for a good session", () => {
    expect(judgeRun({ shapes: [GOOD], jobs: [] }, CLEAN)).toEqual([]);
  });

  it.each<[string, Partial<RunObservations>]>([
    ["an acknowledged submission is never lost", { sessions: new Map() }],
    ["every submission is acknowledged in the end", { sessions: new Map(), acknowledged: new Set() }],
    ["a valid request is not refused", { refused: new Map([["s001", "submission: s001 exists already"]]) }],
    ["every session ends", withSession({ events: events(["QUEUE"]), finishedAtMs: 0 })],
    ["one outcome, and it is the last event", withSession({ events: events([...KINDS, "CANCELLED"]) })],
    ["events are in order", withSession({ events: events(["QUEUE", "PROVISION", "ACCEPT", "RUN", "DONE"]) })],
    [
      "events are in order",
      withSession({ events: events(KINDS).map((event, index) => ({ ...event, atMs: 1000 - index })) }),
    ],
    ["the outcome is allowed", withSession({ events: events([...KINDS.slice(0, -1), "INTERNAL_ERROR"]) })],
    ["a session that is done has passed through every phase", withSession({ events: events(["QUEUE", "DONE"]) })],
    ["the result is kept", withSession({ resultJson: "" })],
    ["the result is kept", withSession({ resultJson: '{"session":"s002"}' })],
    ["an undisturbed session ends without a warning", withSession({ warnings: ["LOGS_LOST: "] })],
    ["published events equal recorded events", { published: new Map() }],
    ["published events equal recorded events", { published: new Map([["s001", new Set([...KINDS, "CANCELLED"])]]) }],
    ["no pod of a session is confirmed twice", { pods: [POD, { ...POD, uid: "u2", boundPlace: 6, endPlace: 8 }] }],
    ["no pod of a session is confirmed twice", { pods: [POD, { ...POD, uid: "u2", node: "", boundPlace: undefined }] }],
    [
      "no pod of a session is confirmed twice",
      { pods: [POD, { ...POD, uid: "u2", confirmed: false, boundPlace: 6, endPlace: 8 }] },
    ],
    [
      "no pod of a session is confirmed twice",
      { pods: [POD, { ...POD, uid: "u2", isShared: true, boundPlace: 6, endPlace: 8 }] },
    ],
    [
      "no machine runs pods of two owners concurrently",
      { pods: [POD, { ...POD, name: "s001-server-0", uid: "u2", boundPlace: 3, endPlace: 8 }] },
    ],
    [
      "no machine runs pods of two owners concurrently",
      {
        pods: [
          { ...POD, endPlace: undefined },
          { ...POD, name: "s001-server-0", uid: "u2", boundPlace: 9 },
        ],
      },
    ],
    ["a pod runs only on a machine that its work was granted", { pods: [{ ...POD, node: "drivers-1" }] }],
    ["no machine has two owners in the ledger", { ledger: [GRANT, { ...GRANT, reservation: "r2", work: "s002" }] }],
    ["no pod is left", { left: { ...CLEAN.left, pods: ["p"] } }],
    ["no service and no budget of a job is left", { left: { ...CLEAN.left, objects: ["o"] } }],
    ["no reservation is left", { left: { ...CLEAN.left, reservations: ["r"] } }],
    ["no machine is held or lost", { left: { ...CLEAN.left, machines: ["m"] } }],
    ["no message is dead-lettered", { left: { ...CLEAN.left, deadLetters: ["d"] } }],
    ["no lock is left", { left: { ...CLEAN.left, locks: ["l"] } }],
  ])("%s", (rule, changes) => {
    expect(rules({ ...CLEAN, ...changes })).toContain(rule);
  });

  it("reports a second pod that was never confirmed, and finds no violation", () => {
    const late = { ...POD, uid: "u2", confirmed: false, node: "", boundPlace: undefined };
    expect(rules({ ...CLEAN, pods: [POD, late] })).toEqual([]);
    expect(listUnconfirmedTwins([POD, late])).toEqual([late]);
    expect(listUnconfirmedTwins([late, { ...POD, name: "s001-server-0" }])).toEqual([]);
  });

  it("allows another pod in place of one that found no room for its part", () => {
    const crowded = { ...POD, uid: "u2", isShared: true, node: "", boundPlace: undefined };
    expect(rules({ ...CLEAN, pods: [POD, crowded] })).toEqual([]);
  });

  it("allows another grant of a machine after the end of the reservation", () => {
    const next = { ...GRANT, reservation: "r2", work: "s002" };
    expect(rules({ ...CLEAN, ledger: [...CLEAN.ledger, next] })).toEqual([]);
  });

  it("allows a failed pod on a machine that was off, and no other", () => {
    const failed = events(KINDS).map((event) =>
      event.kind === "DONE" ? { ...event, kind: "ERROR", reason: "COMPONENT_FAILED" } : event,
    );
    const hit = (node: string): RunObservations => ({
      ...CLEAN,
      ...withSession({ events: failed }),
      outages: [{ node, fromMs: 1002, toMs: 1003 }],
    });
    expect(rules(hit("drivers-0"))).toEqual([]);
    expect(rules(hit("drivers-1"))).toEqual(["the outcome is allowed"]);
  });

  it("allows an INTERNAL_ERROR only when there was a fault", () => {
    const late: SessionShape = { ...GOOD, intent: "never-ready" };
    const blamed = withSession({ events: events(["QUEUE", "ACCEPT", "PROVISION", "INTERNAL_ERROR"]) });
    expect(rules({ ...CLEAN, ...blamed }, late)).toEqual(["the outcome is allowed"]);
    const faults = [{ id: "f01", text: "", fromMs: 900, toMs: 950 }];
    expect(rules({ ...CLEAN, ...blamed, faults }, late)).toEqual([]);
    expect(rules({ ...CLEAN, ...blamed, faults: [{ ...faults[0]!, fromMs: undefined }] }, late)).toEqual([
      "the outcome is allowed",
    ]);
  });
});
