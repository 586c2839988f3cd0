import { expect, it } from "vitest";
import { makeEndedPod, makeGrantedUnit, makePodFact, makeReplica, makeSpec } from "../../test/samples.ts";
import { NEW_STATUS } from "./job-status.ts";
import { summariseMembers, type MemberSummary } from "./summarise-members.ts";
import type { PodFact } from "./snapshot.ts";

const STATUS = {
  ...NEW_STATUS,
  replicas: [
    {
      type: "worker",
      active: 0,
      ready: 0,
      succeeded: 1,
      failed: 0,
      restarts: 0,
      completedIndexes: [1],
      counted: [],
      uncounted: [],
    },
  ],
};

function members(
  pods: readonly PodFact[],
  units = [makeGrantedUnit("worker-0", "worker-1")],
): readonly MemberSummary[] {
  return summariseMembers(makeSpec(), STATUS, pods, units);
}

it("shows every member in the order of the spec, including those without a pod", () => {
  const wide = makeSpec({ replicas: [makeReplica("ps", 1, { pool: "cpu" }), makeReplica("worker", 2)] });
  const shown = summariseMembers(wide, STATUS, [makePodFact("worker-0")], [makeGrantedUnit("ps-0")]);
  expect(shown.map(({ component, pool, node, pod: name, state }) => [component, pool, node, name, state])).toEqual([
    ["ps-0", "cpu", "node-ps-0", "", "PENDING"],
    ["worker-0", "pool-a", "node-worker-0", "train-worker-0", "RUNNING"],
    ["worker-1", "pool-a", "", "", "COMPLETED"],
  ]);
});

it("shows a member without a pod as stopped once the job is over", () => {
  const shown = summariseMembers(makeSpec(), { ...STATUS, completionMs: 5 }, [], []);
  expect(shown.map(({ component, state }) => [component, state])).toEqual([
    ["worker-0", "STOPPED"],
    ["worker-1", "COMPLETED"],
  ]);
});

it("shows a member that had failed at the end of the job as failed, with how it ended, though its pod is gone", () => {
  const failedMembers = [{ type: "worker", indexes: [0], message: "exit code 3" }];
  const shown = summariseMembers(makeSpec(), { ...STATUS, completionMs: 5, failedMembers }, [], []);
  expect(shown.map(({ component, state, message }) => [component, state, message])).toEqual([
    ["worker-0", "FAILED", "exit code 3"],
    ["worker-1", "COMPLETED", ""],
  ]);
});

it("prefers the node of the pod to that of the ledger", () => {
  const [first] = members([makePodFact("worker-0", { node: "elsewhere" })]);
  expect(first?.node).toBe("elsewhere");
  const [unplaced] = members([makePodFact("worker-0", { node: undefined, phase: "Pending" })]);
  expect(unplaced).toMatchObject({ node: "node-worker-0", state: "PENDING", pod: "train-worker-0" });
});

it("shows the part of a machine that a member has, or else waits for", () => {
  const [shared, less] = [{ cpu: 500 }, { cpu: 400 }];
  const wide = makeSpec({ replicas: [makeReplica("ps", 2, { shared }), makeReplica("worker", 2)] });
  const units = [
    { ...makeGrantedUnit("ps-0", "worker-0"), shares: new Map([["ps-0", less]]) },
    { ...makeGrantedUnit("worker-1"), shares: new Map([["worker-1", less]]) },
  ];
  const shown = summariseMembers(wide, NEW_STATUS, [makePodFact("ps-0")], units);
  expect(shown.map(({ component, shared: part }) => [component, part])).toEqual([
    ["ps-0", less],
    ["ps-1", shared],
    ["worker-0", undefined],
    ["worker-1", less],
  ]);
});

it("shows no machine before the grant", () => {
  expect(members([], [{ id: "train", state: "unknown" }]).map(({ node }) => node)).toEqual(["", ""]);
});

it.each<[string, PodFact, string]>([
  ["nothing of a pod that is well", makePodFact("worker-0"), ""],
  ["nothing of an end that is well", makeEndedPod("worker-0", 0), ""],
  ["the exit code of the main container", makeEndedPod("worker-0", 3), "exit code 3"],
  [
    "the code of another container that failed while the main one has none",
    makeEndedPod("worker-0", 1, { exits: [{ container: "fetch", code: 9 }] }),
    "exit code 9 of container fetch",
  ],
  [
    "the main container's code before those of others",
    makeEndedPod("worker-0", 1, { exits: ["fetch", "main"].map((container) => ({ container, code: 9 })) }),
    "exit code 9",
  ],
  [
    "what keeps a pod from starting",
    makePodFact("worker-0", { phase: "Pending", trouble: { reason: "Unschedulable", message: "no room" } }),
    "Unschedulable: no room",
  ],
  ["restarts", makePodFact("worker-0", { containerRestarts: 2 }), "2 restarts"],
  [
    "everything at once",
    makeEndedPod("worker-0", 137, {
      deleting: true,
      reason: "Evicted",
      message: "low on memory",
      containerRestarts: 1,
    }),
    "being deleted, Evicted: low on memory, exit code 137, 1 restarts",
  ],
])("reports %s", (_title, fact, message) => {
  expect(members([fact])[0]?.message).toBe(message);
});

it("reports an end in the status though the cached pod still runs, but not for a later attempt", () => {
  expect(members([makePodFact("worker-1")])[1]?.state).toBe("SUCCEEDED");
  expect(members([makePodFact("worker-1", { attempt: 1 })])[1]?.state).toBe("RUNNING");
});
