import { describe, expect, it } from "vitest";
import {
  makeEndedPod,
  makePodFact,
  POLICY,
  makeReplica,
  makeReplicaSeen,
  makeSnapshot,
  makeSpec,
} from "../../test/samples.ts";
import type { RestartPolicy } from "./job.ts";
import { NEW_STATUS, type JobStatus } from "./job-status.ts";
import { planJob } from "./plan-job.ts";
import type { PodFact } from "./snapshot.ts";
import { summariseReplicas } from "./summarise-replicas.ts";

const MAX_RUNS = 10;

/** The observations of a member that exits with this code in its `run`th run: first that it has ended, then that it runs again. */
function looks(policy: RestartPolicy, code: number, run: number): readonly PodFact[] {
  if (policy === "Never" || policy === "ExitCode") return [makeEndedPod("worker-0", code, { uid: `run-${run}` })];
  const down = [{ container: "main", code }];
  return [
    makePodFact("worker-0", { containerRestarts: run - 1, down }),
    makePodFact("worker-0", { containerRestarts: run }),
  ];
}

function look(status: JobStatus, member: PodFact, restartPolicy: RestartPolicy, backoffLimit: number): JobStatus {
  const job = makeSpec({ replicas: [makeReplica("worker", 1, { restartPolicy })], backoffLimit });
  return planJob(makeSnapshot({ spec: job, status, replicas: [makeReplicaSeen("worker", [member])] }), POLICY).status;
}

/** Returns how the job of a member that always exits with this code ends, and after how many runs. */
function endOf(policy: RestartPolicy, code: number, backoffLimit: number): string {
  let status: JobStatus = NEW_STATUS;
  for (let run = 1; run <= MAX_RUNS; run += 1) {
    for (const [nth, member] of looks(policy, code, run).entries()) {
      // A repeated observation does not count again.
      status = look(look(status, member, policy, backoffLimit), member, policy, backoffLimit);
      const failed = status.conditions.find(({ type }) => type === "Failed");
      if (failed !== undefined) return `${failed.reason} at end ${run}${nth === 0 ? "" : ", seen late"}`;
    }
  }
  return "continues";
}

describe.each([0, 1, 3])("a member that fails at each run, with backoffLimit %i,", (limit) => {
  it.each<[RestartPolicy, code: number, end: string]>([
    ["OnFailure", 1, `BackoffLimitExceeded at end ${limit + 1}`],
    ["OnFailure", 137, `BackoffLimitExceeded at end ${limit + 1}`],
    ["Always", 1, `BackoffLimitExceeded at end ${limit + 1}`],
    ["Always", 137, `BackoffLimitExceeded at end ${limit + 1}`],
    ["ExitCode", 137, `BackoffLimitExceeded at end ${limit + 1}`],
    ["ExitCode", 1, "PermanentExitCode at end 1"],
    ["Never", 1, "PodFailed at end 1"],
    ["Never", 137, "PodFailed at end 1"],
  ])("under %s with code %i, ends its job: %s", (policy, code, end) => {
    expect(endOf(policy, code, limit)).toBe(end);
  });
});

describe("the failures of a pod", () => {
  const down = [{ container: "main", code: 1 }];
  const disrupted = [{ type: "DisruptionTarget", status: "True" }];
  it.each<[title: string, RestartPolicy, PodFact, failures: number]>([
    ["that runs for the first time", "OnFailure", makePodFact("worker-0"), 0],
    ["that is down after its first run", "OnFailure", makePodFact("worker-0", { down }), 1],
    ["that runs again", "OnFailure", makePodFact("worker-0", { containerRestarts: 1 }), 1],
    ["that is down after it ran again", "OnFailure", makePodFact("worker-0", { containerRestarts: 1, down }), 2],
    ["with two containers down", "Always", makePodFact("worker-0", { down: [...down, ...down] }), 2],
    ["that is down and then ended", "OnFailure", makeEndedPod("worker-0", 1, { containerRestarts: 1 }), 2],
    [
      "that is down because it is deleted",
      "OnFailure",
      makePodFact("worker-0", { containerRestarts: 1, down, deleting: true }),
      1,
    ],
    ["that is down because it is disrupted", "OnFailure", makePodFact("worker-0", { down, conditions: disrupted }), 0],
    ["whose main container waits for the others to end", "ExitCode", makePodFact("worker-0", { down }), 0],
    ["whose sidecar was restarted", "ExitCode", makePodFact("worker-0", { containerRestarts: 3 }), 0],
    [
      "whose sidecar was restarted before its end",
      "ExitCode",
      makeEndedPod("worker-0", 137, { containerRestarts: 3 }),
      1,
    ],
    ["that finally succeeded", "OnFailure", makeEndedPod("worker-0", 0, { containerRestarts: 2 }), 2],
  ])("%s (%s)", (_title, restartPolicy, member, failures) => {
    const job = makeSpec({ replicas: [makeReplica("worker", 1, { restartPolicy })] });
    expect(summariseReplicas(job, NEW_STATUS, [makeReplicaSeen("worker", [member])])[0]?.restarts).toBe(failures);
  });
});
