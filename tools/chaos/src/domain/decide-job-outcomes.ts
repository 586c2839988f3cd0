import type { UserAction, JobShape } from "./plan-jobs.ts";

/** The outcome of a job: `Succeeded`, or `Failed` with the reason of that condition. */
export type JobOutcome =
  | "Succeeded"
  | `Failed ${"PodFailed" | "PermanentExitCode" | "BackoffLimitExceeded" | "DeadlineExceeded" | "Cancelled"}`;

export type JobExpectation = {
  readonly outcomes: readonly JobOutcome[];
  /** Whether the job may be deleted before it has ended. */
  readonly mayBeDeleted: boolean;
  readonly because: string;
};

/** The allowed outcomes of a job of this shape; `nodeLost`: one of its machines was off. Every other outcome is a defect, whatever the faults. */
export function decideJobOutcomes(shape: JobShape, { nodeLost }: { readonly nodeLost: boolean }): JobExpectation {
  const outcomes = new Set<JobOutcome>(ownOutcome(shape));
  if (nodeLost) for (const outcome of outcomesOfLoss(shape)) outcomes.add(outcome);
  if (isBeforeEnd(shape, "cancel")) outcomes.add("Failed Cancelled");
  return {
    outcomes: [...outcomes].sort(),
    mayBeDeleted: isBeforeEnd(shape, "delete"),
    because: [shape.intent, ...describeUserAction(shape), ...(nodeLost ? ["one of its machines was off"] : [])].join(
      ", ",
    ),
  };
}

/** An action of the user after the end does not change the outcome. */
function isBeforeEnd({ userAction }: JobShape, kind: UserAction["kind"]): boolean {
  return userAction?.kind === kind && userAction.phase !== "cleaning-up";
}

function ownOutcome({ intent }: JobShape): JobOutcome[] {
  switch (intent) {
    case "good":
    case "flaky-beside":
      return ["Succeeded"];
    case "member-fails":
      return ["Failed PodFailed"];
    case "permanent-code":
      return ["Failed PermanentExitCode"];
    case "budget-spent":
    case "gang-restarts":
      return ["Failed BackoffLimitExceeded"];
    case "deadline":
      return ["Failed DeadlineExceeded"];
    case "pool-too-small":
      // Only its user ends such a job.
      return [];
  }
}

/** Pods on a machine that returns before it counts as lost end with the exit code of a signal, like any failure. */
function outcomesOfLoss({ intent, types }: JobShape): JobOutcome[] {
  if (intent === "pool-too-small") return [];
  const failsImmediately = types.some(({ restartPolicy }) => restartPolicy === "Never");
  return ["Failed BackoffLimitExceeded", ...(failsImmediately ? (["Failed PodFailed"] as const) : [])];
}

function describeUserAction({ userAction }: JobShape): string[] {
  return userAction === undefined ? [] : [`user action ${userAction.kind} when it is ${userAction.phase}`];
}
