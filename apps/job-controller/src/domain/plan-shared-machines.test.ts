import type { Requests } from "@muster/resources";
import { describe, expect, it } from "vitest";
import {
  listConditions,
  GANG,
  NONE,
  planSteps,
  makeStatus,
  succeeded,
  makeWaitingUnit,
  makeWorkers,
} from "../../test/planned-job.ts";
import { JOB, makePodFact, POLICY, makeReplica, makeReplicaSeen, makeSnapshot, makeSpec } from "../../test/samples.ts";
import { findCondition } from "./job-status.ts";
import { planJob } from "./plan-job.ts";
import type { Snapshot, UnitSeen } from "./snapshot.ts";

const HALF = { cpu: 500 };
const SHARED = makeSpec({ replicas: [makeReplica("worker", 2, { shared: HALF })] });

/** Builds a unit with these nodes, in which each member has a part of its node. */
function parts(nodes: Readonly<Record<string, string>>, id = GANG, share: Requests = HALF): UnitSeen {
  const shares = new Map(Object.keys(nodes).map((component) => [component, share]));
  return { id, state: "granted", nodes: new Map(Object.entries(nodes)), shares };
}
const own = (component: string, node: string, share = HALF) =>
  parts({ [component]: node }, `${GANG}--${component}`, share);
const BOTH = parts({ "worker-0": "n", "worker-1": "n" });
const [zero, one] = [makePodFact("worker-0", { node: "n" }), makePodFact("worker-1", { node: "n" })];
const unbound = (component: string, pinned: string) =>
  makePodFact(component, { phase: "Pending", ready: false, node: undefined, pinned });

/** Plans a job whose two members share one node, with these changes. */
const planned = (more: Partial<Snapshot>): string[] => planSteps({ spec: SHARED, units: [BOTH], ...more });

describe("parts of machines", () => {
  it("are requested with each member's requests", () => {
    const mixed = makeSpec({ replicas: [makeReplica("ps", 1, { shared: HALF }), makeReplica("worker", 1)] });
    const { steps } = planJob(makeSnapshot({ spec: mixed, units: [NONE] }), POLICY);
    expect(steps).toMatchObject([
      {
        kind: "reserve",
        unit: {
          needs: [
            { component: "ps-0", pool: "pool-a", shared: HALF },
            { component: "worker-0", pool: "pool-a" },
          ],
        },
      },
    ]);
    expect(steps[0]?.kind === "reserve" && steps[0].unit.needs[1]).not.toHaveProperty("shared");
  });

  const shares = (share: Requests) => new Map(["worker-0", "worker-1"].map((component) => [component, share]));
  it.each<[string, Partial<Snapshot>, string[]]>([
    ["delay the pods until the grant", { units: [makeWaitingUnit({ shares: shares(HALF) })] }, []],
    [
      "are requested again when the template now requests less",
      { units: [makeWaitingUnit({ shares: shares({ cpu: 600 }) })] },
      ["release gang: needs-changed"],
    ],
    [
      "are requested instead of the whole machines that the job waits for",
      { units: [makeWaitingUnit()] },
      ["release gang: needs-changed"],
    ],
    [
      "are replaced by whole machines when the job now requests those",
      { spec: makeSpec(), units: [makeWaitingUnit({ shares: shares(HALF) })] },
      ["release gang: needs-changed"],
    ],
    [
      "are not requested again from a ledger that drops shares",
      { units: [makeWaitingUnit({ dropsConstraints: true })] },
      [],
    ],
    [
      "get the pods of several members on one node",
      {},
      ["create worker-0 on a part of n, worker-1 on a part of n: missing"],
    ],
    [
      "get pods marked as shared only where the grant is a part, whatever the job requests now",
      {
        units: [
          {
            id: GANG,
            state: "granted",
            nodes: new Map([
              ["worker-0", "n"],
              ["worker-1", "m"],
            ]),
          },
        ],
      },
      ["create worker-0 on n, worker-1 on m: missing"],
    ],
    ["need no step while their pods run", { ...makeWorkers(zero, one) }, []],
  ])("%s", (_title, world, steps) => {
    expect(planned({ budget: world.units?.[0]?.state === "waiting" ? undefined : 2, ...world })).toEqual(steps);
  });

  it.each<[string, UnitSeen, string]>([
    ["parts", BOTH, "2 parts of machines are reserved"],
    ["one part", parts({ "worker-0": "n" }), "1 part of a machine is reserved"],
    [
      "machines and parts",
      { ...BOTH, shares: new Map([["worker-0", HALF]]) } as UnitSeen,
      "1 machine and 1 part of a machine are reserved",
    ],
  ])("are counted separately from machines in the condition: %s", (_title, unit, message) => {
    const { status: after } = planJob(makeSnapshot({ spec: SHARED, units: [unit] }), POLICY);
    expect(findCondition(after, "MachinesReserved")?.message).toBe(message);
  });
});

describe("a part of a machine is released", () => {
  const three = own("worker-2", "n");
  it.each<[string, Partial<Snapshot>, string[]]>([
    [
      "when its own member is gone, though another member runs on the same node",
      { units: [BOTH, three], ...makeWorkers(zero, one) },
      ["release gang--worker-2: scaled-down"],
    ],
    [
      "when its own member has ended, and not before",
      {
        units: [BOTH, three],
        replicas: [
          makeReplicaSeen("worker", [zero, one], {
            surplus: [{ pod: makePodFact("worker-2", { node: "n" }), because: "index-out-of-range" }],
          }),
        ],
      },
      ["delete train-worker-2: index-out-of-range"],
    ],
    [
      "not while a pod of an unknown member may use it",
      { units: [BOTH, three], ...makeWorkers(zero, one), unreadable: [makePodFact("", { name: "odd", node: "n" })] },
      [],
    ],
    [
      "not while a pod runs on its node that has no part of any",
      { units: [BOTH, three], ...makeWorkers(zero, one), released: [makePodFact("worker-9", { node: "n" })] },
      [],
    ],
    [
      "not while its pod, which has no node yet, may be placed",
      {
        units: [BOTH, three],
        replicas: [
          makeReplicaSeen("worker", [zero, one], {
            surplus: [{ pod: { ...unbound("worker-2", "n"), deleting: true }, because: "index-out-of-range" }],
          }),
        ],
      },
      [],
    ],
    [
      "with the gang only once the last of its pods is gone",
      {
        status: makeStatus({ conditions: [succeeded] }),
        ...makeWorkers(undefined, { ...one, deleting: true }),
        budget: undefined,
      },
      [],
    ],
    [
      "with the gang, when the job is deleted",
      { job: { ...JOB, deleting: true }, ...makeWorkers(undefined, undefined) },
      ["release gang: job-over"],
    ],
    [
      "with the gang, when the job is handed over, though a pod of the other controller runs there",
      {
        spec: { ...SHARED, managedBy: "other" },
        ...makeWorkers(makePodFact("", { name: "other", node: "n" }), undefined),
        budget: undefined,
      },
      ["release gang: handed-over"],
    ],
  ])("%s", (_title, world, steps) => {
    expect(planned(world)).toEqual(steps);
  });
});

describe("a pod on a machine where its member holds no part", () => {
  it.each<[string, Partial<Snapshot>, string[]]>([
    [
      "on a node where the job has a part for another member: it is deleted",
      { units: [parts({ "worker-0": "n", "worker-1": "m" })], ...makeWorkers(zero, one) },
      ["delete train-worker-1: machine-lost"],
    ],
    [
      "and is pinned there: it is deleted",
      { units: [parts({ "worker-0": "n", "worker-1": "m" })], ...makeWorkers(zero, unbound("worker-1", "n")) },
      ["delete train-worker-1: machine-lost"],
    ],
    [
      "of a finished job that keeps its pods: it is deleted",
      {
        spec: { ...SHARED, cleanPodPolicy: "None" },
        status: makeStatus({ conditions: [succeeded] }),
        units: [parts({ "worker-0": "n", "worker-1": "m" })],
        ...makeWorkers(zero, one),
        budget: undefined,
      },
      ["delete train-worker-1: job-over"],
    ],
    [
      "but had one before, which the ledger still keeps for it: it continues",
      {
        status: makeStatus({ replaced: ["worker-1"] }),
        units: [BOTH, own("worker-1", "m")],
        ...makeWorkers(zero, one),
      },
      [],
    ],
  ])("%s", (_title, world, steps) => {
    expect(planned(world)).toEqual(steps);
  });
});

describe("a node of several members", () => {
  it("is replaced for each member if it is lost", () => {
    expect(planned({ nodesLost: ["n"], ...makeWorkers(zero, one) })).toEqual([
      "reserve worker-0: machine-lost",
      "reserve worker-1: machine-lost",
      "delete train-worker-0: machine-lost",
      "delete train-worker-1: machine-lost",
    ]);
  });

  it("gives a member another part beside the lost parts of others", () => {
    const world = {
      nodesLost: ["n"],
      status: makeStatus({ replaced: ["worker-0", "worker-1"] }),
      units: [BOTH, own("worker-0", "m"), own("worker-1", "m")],
    };
    expect(planned({ ...world, ...makeWorkers(undefined, undefined) })).toEqual([
      "create worker-0 on a part of m, worker-1 on a part of m: missing",
    ]);
  });

  it.each<[string, Partial<Snapshot>, string[]]>([
    [
      "keeps the member that runs there, and is replaced for the one that waits to be placed",
      { ...makeWorkers(zero, unbound("worker-1", "n")) },
      ["reserve worker-1: machine-lost", "delete train-worker-1: machine-lost"],
    ],
    [
      "is replaced for the member that has no pod yet",
      { ...makeWorkers(zero, undefined) },
      ["reserve worker-1: machine-lost"],
    ],
    ["keeps all that run there", { ...makeWorkers(zero, one) }, []],
    [
      "is no machine of a member's own unit either",
      {
        status: makeStatus({ replaced: ["worker-1"] }),
        units: [parts({ "worker-0": "n", "worker-1": "m" }), own("worker-1", "n")],
        ...makeWorkers(zero, undefined),
      },
      ["release gang--worker-1: machine-lost"],
    ],
  ])("that is unschedulable %s", (_title, world, steps) => {
    expect(planned({ nodesUnschedulable: ["n"], ...world })).toEqual(steps);
  });
});

describe("a member that requests more than its part holds", () => {
  const more = makeSpec({ replicas: [makeReplica("worker", 2, { shared: { cpu: 501 } })] });
  const replaced = makeStatus({ replaced: ["worker-1"] });
  it.each<[string, Partial<Snapshot>, string[]]>([
    ["keeps its part while its pod runs", { ...makeWorkers(zero, one) }, []],
    [
      "gets another part before its next pod, and no pod until then",
      { ...makeWorkers(zero, undefined) },
      ["reserve worker-1: machine-lost"],
    ],
    [
      "gets its next pod on the new part",
      { status: replaced, units: [BOTH, own("worker-1", "m", { cpu: 501 })], ...makeWorkers(zero, undefined) },
      ["create worker-1 on a part of m: missing"],
    ],
    [
      "releases a part of its own that is too small again",
      { status: replaced, units: [BOTH, own("worker-1", "m")], ...makeWorkers(zero, undefined) },
      ["release gang--worker-1: needs-changed"],
    ],
    [
      "keeps a part of its own that is too small while its pod runs there",
      {
        status: replaced,
        units: [BOTH, own("worker-1", "m")],
        ...makeWorkers(zero, makePodFact("worker-1", { node: "m" })),
      },
      [],
    ],
    [
      "gets a whole machine when it no longer shares",
      { spec: makeSpec(), ...makeWorkers(zero, undefined) },
      ["reserve worker-1: machine-lost"],
    ],
  ])("%s", (_title, world, steps) => {
    expect(planned({ spec: more, ...world })).toEqual(steps);
  });

  it("releases all parts and requests them again if the job has no pod, because its own parts would prevent the grant", () => {
    const world = { spec: makeSpec(), units: [BOTH], ...makeWorkers(undefined, undefined) };
    expect(planned(world)).toEqual(["release gang: gang-restarts"]);
    expect(listConditions(world)).toContain("Restarting: NeedsChanged");
    expect(planned({ ...world, podsSettled: false })).not.toContain("release gang: gang-restarts");
  });

  it("keeps a whole machine, and a part that holds more than the requests", () => {
    const less = makeSpec({ replicas: [makeReplica("worker", 2, { shared: { cpu: 400 } })] });
    const create = "create worker-1 on a part of n: missing";
    expect(planned({ spec: less, ...makeWorkers(zero, undefined) })).toEqual([create]);
    expect(listConditions({ spec: less, units: [BOTH], ...makeWorkers(zero, one) })).toContain(
      "MachinesReserved: MachinesGranted",
    );
  });
});
