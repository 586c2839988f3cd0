import { describe, expect, it } from "vitest";
import {
  NOW_MS,
  POLICY,
  makeEndedPod,
  makeGrantedUnit,
  makePodFact,
  makeReplica,
  makeReplicaSeen,
  makeSnapshot,
  makeSpec,
} from "../../test/samples.ts";
import { NEW_STATUS, type JobStatus } from "./job-status.ts";
import { planJob } from "./plan-job.ts";
import { findStatusChanges } from "./find-status-changes.ts";
import type { Snapshot } from "./snapshot.ts";

const both = [makePodFact("worker-0"), makePodFact("worker-1")];
const running: Partial<Snapshot> = { replicas: [makeReplicaSeen("worker", both)], budget: 2 };

/** Returns the status changes of a pass over a job with this status in this world, and its next status. */
function look(before: JobStatus, world: Partial<Snapshot>): { changes: string[]; status: JobStatus } {
  const { status } = planJob(makeSnapshot({ ...world, status: before }), POLICY);
  return { changes: findStatusChanges(before, status, []).map(({ type, reason }) => `${type} ${reason}`), status };
}

describe("the status changes of a job", () => {
  const begun = look(NEW_STATUS, running);

  it("are reported once each", () => {
    expect(begun.changes).toEqual(["Normal JobCreated", "Normal MachinesGranted", "Normal JobRunning"]);
    expect(look(begun.status, running).changes).toEqual([]);
  });

  it.each<[string, Partial<Snapshot>, string[]]>([
    [
      "its success",
      { replicas: [makeReplicaSeen("worker", [makeEndedPod("worker-0", 0), makeEndedPod("worker-1", 0)])] },
      ["Normal JobSucceeded"],
    ],
    [
      "an exit code",
      {
        spec: makeSpec({ replicas: [makeReplica("worker", 2, { restartPolicy: "ExitCode" })] }),
        replicas: [makeReplicaSeen("worker", [makePodFact("worker-0"), makeEndedPod("worker-1", 1)])],
      },
      ["Warning PermanentExitCode"],
    ],
    [
      "its deadline",
      { ...running, spec: makeSpec({ activeDeadlineMs: 1000 }), nowMs: NOW_MS + 60_000 },
      ["Warning DeadlineExceeded"],
    ],
    [
      "a spec that has become unreadable",
      { spec: { ok: false, problems: [{ field: "spec", reason: "is wrong" }], managedBy: undefined } },
      ["Warning InvalidSpec"],
    ],
    [
      "a restart",
      { replicas: [makeReplicaSeen("worker", [makePodFact("worker-0"), makeEndedPod("worker-1", 1)])] },
      ["Warning JobRestarting"],
    ],
    [
      "a taken name",
      { ...running, namesTaken: [{ pod: "train-worker-0", owner: "no owner" }] },
      ["Warning NameConflict"],
    ],
    ["a missing right", { ...running, companionsRefused: "there is no right" }, ["Warning RightsMissing"]],
  ])("include %s", (_what, world, changes) => {
    expect(look(begun.status, { units: [makeGrantedUnit("worker-0", "worker-1")], ...world }).changes).toEqual(changes);
  });

  it("include a suspension and a resumption", () => {
    const suspended = look(begun.status, { ...running, spec: makeSpec({ suspend: true }) });
    expect(suspended.changes).toEqual(["Normal JobSuspended"]);
    expect(look(suspended.status, running).changes).toContain("Normal JobResumed");
  });

  it("warn about a spec once for each generation of it", () => {
    const warnings = [{ field: "spec.elasticPolicy", reason: "has no effect" }];
    const changes = findStatusChanges(NEW_STATUS, { ...NEW_STATUS, observedGeneration: 1 }, warnings);
    expect(changes).toMatchObject([
      { type: "Warning", reason: "SpecWarning", message: "spec.elasticPolicy: has no effect" },
    ]);
    expect(findStatusChanges(begun.status, begun.status, warnings)).toEqual([]);
  });

  it("include each wrong value that makes a running job unreadable", () => {
    const wrong = (reason: string): Partial<Snapshot> => ({
      spec: {
        ok: false,
        problems: [{ field: "metadata.annotations.muster.dev/sharing", reason }],
        managedBy: undefined,
      },
      units: [makeGrantedUnit("worker-0", "worker-1")],
    });
    const first = look(begun.status, wrong("is not half"));
    const second = look(first.status, wrong("is not none"));
    const same = look(second.status, wrong("is not none"));
    expect([first, second, same].map(({ changes }) => changes)).toEqual([
      ["Warning InvalidSpec"],
      ["Warning InvalidSpec"],
      [],
    ]);
  });

  it("count a restart that begins during another one", () => {
    const failed = makeEndedPod("worker-1", 1);
    const first = look(begun.status, { replicas: [makeReplicaSeen("worker", [makePodFact("worker-0"), failed])] });
    const second = look(first.status, { replicas: [makeReplicaSeen("worker", [makeEndedPod("worker-0", 1), failed])] });
    expect([first.changes, second.changes]).toEqual([["Warning JobRestarting"], ["Warning JobRestarting"]]);
  });
});
