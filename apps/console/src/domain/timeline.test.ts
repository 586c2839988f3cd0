import { expect, it } from "vitest";
import type { Job, JobEvent, Lease, LeaseEvent, ReplicaSet, Session } from "../adapters/messages.ts";
import {
  placeBar,
  timelineOfComponents,
  timelineOfJob,
  timelineOfLease,
  timelineOfMembers,
  timelineOfSession,
  timelineOfSet,
  type Bar,
} from "./timeline.ts";

const NOW_MS = 100;
const shown = (bars: readonly Bar[]) =>
  bars.map(({ label, stage, fromMs, toMs, isOver }) => `${label} ${stage} ${fromMs}-${toMs}${isOver ? "" : "…"}`);
const session = (...events: readonly (readonly [string, number])[]): Session =>
  ({
    createdAtMs: 1,
    events: events.map(([kind, atMs]) => ({ kind, atMs, reason: "", description: "" })),
  }) as unknown as Session;
const job = (fields: Partial<Job>): Job =>
  ({
    key: { kind: "Job", namespace: "default", name: "train" },
    createdAtMs: 1,
    startedAtMs: 0,
    finishedAtMs: 0,
    conditions: [],
    members: [],
    waitingBecause: "",
    ...fields,
  }) as Job;
const condition = (type: string, lastTransitionMs: number) => ({
  type,
  isTrue: true,
  lastTransitionMs,
  reason: "",
  message: "",
});

const events = (...of: readonly (readonly [reason: string, atMs: number])[]): readonly JobEvent[] =>
  of.map(([reason, atMs]) => ({ object: "Job/train", reason, atMs, message: "" })) as unknown as JobEvent[];

it.each<[title: string, bars: readonly Bar[], expected: readonly string[]]>([
  ["a session that waits", timelineOfSession(session(["QUEUE", 10]), NOW_MS), ["QUEUE waiting 10-100…"]],
  [
    "a finished session",
    timelineOfSession(session(["QUEUE", 10], ["RUN", 30], ["DONE", 90]), NOW_MS),
    ["QUEUE waiting 10-30", "RUN running 30-90", "DONE succeeded 90-90"],
  ],
  [
    "a session whose event has no time",
    timelineOfSession(session(["QUEUE", 0], ["ERROR", 5]), NOW_MS),
    ["QUEUE waiting 1-5", "ERROR failed 5-5"],
  ],
  ["a job that waits", timelineOfJob(job({ state: "QUEUED" }), [], NOW_MS), ["QUEUED waiting 1-100…"]],
  [
    "a job that runs",
    timelineOfJob(job({ state: "RUNNING", startedAtMs: 20, conditions: [condition("Running", 40)] }), [], NOW_MS),
    ["QUEUED waiting 1-20", "STARTING starting 20-40", "RUNNING running 40-100…"],
  ],
  [
    "a job that failed",
    timelineOfJob(job({ state: "FAILED", startedAtMs: 20, finishedAtMs: 60 }), [], NOW_MS),
    ["QUEUED waiting 1-20", "STARTING starting 20-60", "FAILED failed 60-60"],
  ],
  [
    "a job that was cancelled while it waited",
    timelineOfJob(
      job({ state: "FAILED", finishedAtMs: 60, conditions: [{ ...condition("Failed", 60), reason: "Cancelled" }] }),
      [],
      NOW_MS,
    ),
    ["QUEUED waiting 1-60", "CANCELLED cancelled 60-60"],
  ],
  [
    "a finished job, which has no condition of its run any more, by its events",
    timelineOfJob(
      job({ state: "SUCCEEDED", startedAtMs: 20, finishedAtMs: 60 }),
      events(["MachinesGranted", 20], ["JobRunning", 30], ["JobSucceeded", 60]),
      NOW_MS,
    ),
    ["QUEUED waiting 1-20", "STARTING starting 20-30", "RUNNING running 30-60", "SUCCEEDED succeeded 60-60"],
  ],
  [
    "a job whose last members start while it runs",
    timelineOfJob(
      job({ state: "RUNNING" }),
      events(["MembersWait", 20], ["JobRunning", 30], ["MachinesGranted", 40], ["JobRunning", 50]),
      NOW_MS,
    ),
    ["QUEUED waiting 1-20", "STARTING starting 20-30", "RUNNING running 30-100…"],
  ],
  [
    "each life of a job that was preempted and then suspended",
    timelineOfJob(
      job({ state: "SUSPENDED", conditions: [condition("Suspended", 80)] }),
      [
        ...events(["MachinesGranted", 10], ["JobRunning", 20], ["Preempted", 30], ["MachinesGranted", 40]),
        ...events(["JobRunning", 50], ["Unhealthy", 60], ["JobSuspended", 80]),
      ],
      NOW_MS,
    ),
    [
      ...["QUEUED waiting 1-10", "STARTING starting 10-20", "RUNNING running 20-30", "PREEMPTED waiting 30-40"],
      ...["STARTING starting 40-50", "RUNNING running 50-80", "SUSPENDED waiting 80-100…"],
    ],
  ],
])("shows %s", (_, bars, expected) => {
  expect(shown(bars)).toEqual(expected);
});

it("shows the steps of a job's members by the events of their pods", () => {
  const member = (component: string, pod: string, state: string) => ({ component, pod, state });
  const members = [
    member("w-0", "train-w-0", "RUNNING"),
    member("w-1", "train-w-1", "FAILED"),
    member("w-2", "", "PENDING"),
    member("w-3", "", "STOPPED"),
  ];
  const event = (object: string, reason: string, atMs: number) => ({ object, atMs, reason, message: "" });
  const events = [
    event("Pod/train-w-0", "Started", 40),
    event("Pod/train-w-0", "Scheduled", 20),
    event("Pod/train-w-0", "Pulling", 25),
    event("Pod/train-w-0", "Pulled", 35),
    event("Pod/train-w-0", "Created", 35),
    event("Pod/train-w-0", "Unhealthy", 50),
    event("Pod/train-w-0", "Killing", 80),
    event("Pod/train-w-1", "Scheduled", 20),
    event("Pod/train-w-1", "Started", 20),
    event("Pod/train-w-3", "Started", 30),
    event("Job/train", "Started", 1),
  ];
  const bars = timelineOfMembers(
    events as unknown as JobEvent[],
    job({ members: members as unknown as Job["members"] }),
    NOW_MS,
  );
  expect(bars.map(({ what }, index) => `${what}: ${shown(bars)[index]}`)).toEqual([
    "waiting: w-0 waiting 1-20",
    "starting: w-0 starting 20-25",
    "pulling: w-0 starting 25-35",
    "starting: w-0 starting 35-40",
    "running: w-0 running 40-80",
    "ending: w-0 ending 80-100…",
    "waiting: w-1 waiting 1-20",
    "running: w-1 failed 20-100…",
    "waiting: w-2 waiting 1-100…",
    "waiting: w-3 waiting 1-30",
    "running: w-3 running 30-100…",
  ]);
});

const component = (name: string, state: string, fields: Partial<Session["components"][number]> = {}) => ({
  ...{ name, state, node: "n", message: "", lostAtMs: 0 },
  ...fields,
});
const withComponents = (of: Session, finishedAtMs: number, ...components: readonly object[]): Session =>
  ({ ...of, finishedAtMs, components }) as Session;

it.each<[title: string, session: Session, expected: readonly string[]]>([
  [
    "that waits for its machines",
    withComponents(session(["QUEUE", 1]), 0, component("driver", "PENDING", { node: "" })),
    ["waiting: driver waiting 1-100…"],
  ],
  [
    "with a component that has lost its machine, and components that start one after the other",
    withComponents(
      session(["QUEUE", 1], ["ACCEPT", 10], ["PROVISION", 20]),
      0,
      component("server", "READY"),
      component("client", "PENDING"),
      component("lost", "PENDING", { node: "", lostAtMs: 60 }),
    ),
    [
      ...["waiting: server waiting 1-20", "starting: server starting 20-100…", "waiting: client waiting 1-100…"],
      ...["waiting: lost waiting 1-20", "starting: lost starting 20-60", "waiting: lost waiting 60-100…"],
    ],
  ],
  [
    "that is over",
    withComponents(
      session(["QUEUE", 1], ["PROVISION", 20], ["RUN", 50], ["ERROR", 90]),
      95,
      component("driver", "SUCCEEDED"),
      component("server", "FAILED", { message: "exit code 3" }),
      component("client", "STOPPED"),
    ),
    [
      ...["waiting: driver waiting 1-20", "starting: driver starting 20-50", "running: driver succeeded 50-95"],
      ...["waiting: server waiting 1-20", "starting: server starting 20-50", "running: server failed 50-95"],
      ...["waiting: client waiting 1-20", "starting: client starting 20-50", "running: client running 50-95"],
    ],
  ],
  [
    "that ended before its pods were made",
    withComponents(session(["QUEUE", 1], ["CANCELLED", 30]), 30, component("driver", "PENDING")),
    ["waiting: driver waiting 1-30"],
  ],
])("shows the components of a session %s", (_title, of, expected) => {
  const bars = timelineOfComponents(of, NOW_MS);
  expect(bars.map(({ what }, index) => `${what}: ${shown(bars)[index]}`)).toEqual(expected);
});

it("explains the last step of a component by its state", () => {
  const failed = component("server", "FAILED", { message: "exit code 3" });
  const bars = timelineOfComponents(withComponents(session(["QUEUE", 1], ["RUN", 50]), 0, failed), NOW_MS);
  expect(bars.map(({ note }) => note)).toEqual(["", "FAILED: exit code 3"]);
});

it("shows a lease by its history, or by its order if it has none", () => {
  const lease = { record: { order: { created: "1970-01-01T00:00:00.010Z" } } } as unknown as Lease;
  const event = (eventType: string, ms: number) =>
    ({ eventType, message: "", at: new Date(ms).toISOString() }) as LeaseEvent;
  expect(shown(timelineOfLease(lease, [], NOW_MS))).toEqual(["ORDERED waiting 10-100…"]);
  const history = [event("ORDERED", 10), event("RENEWED", 20), event("PROVISIONED", 30), event("FAILED", 50)];
  expect(shown(timelineOfLease(lease, history, NOW_MS))).toEqual([
    "ORDERED waiting 10-30",
    "PROVISIONED running 30-50",
    "FAILED failed 50-50",
  ]);
});

it("shows a lease without an order by its history alone", () => {
  expect(timelineOfLease({ record: undefined } as unknown as Lease, [], NOW_MS)).toEqual([]);
});

it("shows the nodes of a replica set by the health of their replicas, and the transfer in progress", () => {
  const placements = ["a", "b", "c", "d"].map((node, index) => ({ node, sinceMs: 10 * (index + 1) }));
  const replicas = [
    { node: "a", health: "READY" },
    { node: "b", health: "FAILED" },
    { node: "c", health: "PENDING" },
  ];
  const set = (record: object) => ({ record, replicas }) as unknown as ReplicaSet;
  const places = ["a running 10-100…", "b failed 20-100…", "c starting 30-100…", "d starting 40-100…"];
  const bars = timelineOfSet(set({ placements }), NOW_MS);
  expect(shown(bars)).toEqual(places);
  expect(bars.map(({ note }) => note)).toEqual(["READY", "FAILED", "PENDING", ""]);

  const transfer = { oldNode: "a", newNode: "", startedAtMs: 50, because: "NODE_INELIGIBLE" };
  const [last] = timelineOfSet(set({ placements, transfer }), NOW_MS).slice(-1);
  expect(last).toMatchObject({ label: "a to ?", stage: "starting", fromMs: 50, note: "NODE_INELIGIBLE" });
  const chosen = timelineOfSet(set({ placements, transfer: { ...transfer, newNode: "e" } }), NOW_MS);
  expect(shown(chosen)).toEqual([...places, "a to e starting 50-100…"]);
  expect(timelineOfSet({ replicas: [] } as unknown as ReplicaSet, NOW_MS)).toEqual([]);
});

it("places bars within the whole, and shows bars without a duration", () => {
  const bars = timelineOfSession(session(["QUEUE", 0], ["RUN", 51], ["DONE", 101]), NOW_MS);
  expect(bars.map((bar) => placeBar(bar, bars))).toEqual([
    { left: 0, width: 50 },
    { left: 50, width: 50 },
    { left: 99.5, width: 0.5 },
  ]);
});
