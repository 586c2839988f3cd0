import { describe, expect, it } from "vitest";
import { listConditions, GANG, NONE, planSteps, makeWaitingUnit } from "../../test/planned-job.ts";
import { makeGrantedUnit, NOW_MS, POLICY, makeReplicaSeen, makeSnapshot, makeSpec } from "../../test/samples.ts";
import type { JobSpec } from "./job.ts";
import { findCondition } from "./job-status.ts";
import { planJob } from "./plan-job.ts";
import type { QueueChoice } from "@muster/ledger-client/choose-queue";
import type { Snapshot, UnitSeen } from "./snapshot.ts";

const TEAM: QueueChoice = { kind: "queue", name: "team-a" };
const UNKNOWN: QueueChoice = { kind: "unknown", message: "no queue serves the namespace default" };
const UNLISTED: QueueChoice = { kind: "unlisted" };
const HAS_NONE: QueueChoice = { kind: "none" };

const queued = (queue?: string, more: object = {}): UnitSeen => makeWaitingUnit({ ...(queue && { queue }), ...more });
const refused = (code: string, agoMs: number): UnitSeen =>
  makeWaitingUnit({ state: "refused", because: { code, text: "refused" }, sinceMs: NOW_MS - agoMs });

function requests(more: Partial<Snapshot>): readonly string[] {
  return planJob(makeSnapshot({ budget: 2, ...more }), POLICY).steps.flatMap((step) => {
    if (step.kind !== "reserve") return [];
    const from = step.loweredFrom === undefined ? "" : ` from ${step.loweredFrom}`;
    return [`${step.unit.id.replace(GANG, "gang")} in ${step.unit.queue}: ${step.priority}${from}`];
  });
}

describe("a job with a queue", () => {
  it("requests its machines with the queue, and with at most the maximum priority of the queue", () => {
    expect(requests({ units: [NONE], queue: TEAM })).toEqual(["gang in team-a: 0"]);
    expect(requests({ units: [NONE], queue: HAS_NONE })).toEqual(["gang in undefined: 0"]);
    const urgent: JobSpec = { ...makeSpec(), priority: 50 };
    const limited = (maxPriority: number): QueueChoice => ({ kind: "queue", name: "team-a", maxPriority });
    expect(requests({ units: [NONE], spec: urgent, queue: limited(50) })).toEqual(["gang in team-a: 50"]);
    expect(requests({ units: [NONE], spec: urgent, queue: limited(-2) })).toEqual(["gang in team-a: -2 from 50"]);
  });

  it.each<[string, UnitSeen, QueueChoice, readonly string[]]>([
    ["waits in its queue", queued("team-a"), TEAM, []],
    ["leaves a queue that is no longer its own", queued("team-b"), TEAM, ["release gang: needs-changed"]],
    ["enters the first queue", queued(), TEAM, ["release gang: needs-changed"]],
    ["leaves the last queue", queued("team-a"), HAS_NONE, ["release gang: needs-changed"]],
    ["leaves when its queue is not known", queued("team-a"), UNKNOWN, ["release gang: needs-changed"]],
    ["leaves a wait without a queue when its queue is not known", queued(), UNKNOWN, ["release gang: needs-changed"]],
    ["stays while the queues are not listed", queued("team-a"), UNLISTED, []],
    ["waits for a ledger that drops queues", queued(undefined, { dropsConstraints: true }), TEAM, []],
    ["requests nothing while its queue is not known", NONE, UNKNOWN, []],
    ["requests nothing while the queues are not listed", NONE, UNLISTED, []],
    ["repeats no refused request while its queue is unknown", refused("POOL_UNKNOWN", 30_000), UNKNOWN, []],
    [
      "repeats a request refused for an unknown queue soon",
      refused("QUEUE_UNKNOWN", 5000),
      TEAM,
      ["reserve worker-0+worker-1: gang"],
    ],
    ["does not repeat that request sooner", refused("QUEUE_UNKNOWN", 4999), TEAM, []],
    ["repeats other refusals later", refused("QUOTA_EXCEEDED", 5000), TEAM, []],
  ])("%s", (_title, unit, queue, steps) => {
    expect(planSteps({ units: [unit], budget: undefined, queue })).toEqual(steps);
  });

  it("waits with the reason why its queue is unknown, and does not fail", () => {
    const world = { units: [NONE], budget: undefined, queue: UNKNOWN };
    expect(listConditions(world)).toEqual(["Created: JobCreated", "not MachinesReserved: QUEUE_UNKNOWN"]);
    const { status } = planJob(makeSnapshot(world), POLICY);
    expect(findCondition(status, "MachinesReserved")?.message).toBe("no queue serves the namespace default");
    expect(listConditions({ units: [refused("POOL_UNKNOWN", 0)], queue: UNKNOWN })).toContain(
      "not MachinesReserved: QUEUE_UNKNOWN",
    );
    expect(listConditions({ units: [NONE], queue: UNLISTED })).toEqual(["Created: JobCreated"]);
  });

  it.each<[string, QueueChoice]>([
    ["another queue", { kind: "queue", name: "team-b" }],
    ["none", HAS_NONE],
    ["unknown", UNKNOWN],
    ["unlisted", UNLISTED],
  ])(
    "keeps what it holds, and grows in the queue of its first reservation, when its queue is %s now",
    (_title, queue) => {
      const [worker] = makeSpec().replicas;
      if (worker === undefined) throw new Error("a job without a type");
      const grown = { ...makeSpec(), replicas: [{ ...worker, replicas: 3 }] };
      const slots = { replicas: [makeReplicaSeen("worker", [undefined, undefined, undefined])] };
      const held = { ...makeGrantedUnit("worker-0", "worker-1"), queue: "team-a" };
      expect(requests({ units: [held], spec: grown, ...slots, queue })).toEqual(["gang--worker-2 in team-a: 0"]);
      const extra = queued("team-a", { id: `${GANG}--worker-2`, components: ["worker-2"] });
      expect(requests({ units: [held, extra], spec: grown, ...slots, queue })).toEqual([]);
      expect(
        planSteps({ units: [held, extra], spec: grown, ...slots, queue }).filter((line) => line.startsWith("release")),
      ).toEqual([]);
    },
  );
});
