import type { Deed, JobShape } from "./plan-jobs.ts";

/** How a job ended: `Succeeded`, or `Failed` with the reason of that condition. */
export type JobOutcome =
  | "Succeeded"
  | `Failed ${"PodFailed" | "PermanentExitCode" | "BackoffLimitExceeded" | "DeadlineExceeded" | "Cancelled"}`;

export type JobExpectation = {
  readonly outcomes: readonly JobOutcome[];
  /** Whether it may be gone before it has ended. */
  readonly mayGo: boolean;
  readonly because: string;
};

/** Every right outcome of a job of this shape; `nodeLost`: a machine of it was off. Anything else is a defect, whatever the infrastructure went through. */
export function decideJobOutcomes(shape: JobShape, { nodeLost }: { readonly nodeLost: boolean }): JobExpectation {
  const outcomes = new Set<JobOutcome>(ownOutcome(shape));
  if (nodeLost) for (const outcome of outcomesOfLoss(shape)) outcomes.add(outcome);
  if (comesEarly(shape, "cancel")) outcomes.add("Failed Cancelled");
  return {
    outcomes: [...outcomes].sort(),
    mayGo: comesEarly(shape, "delete"),
    because: [shape.intent, ...describeDeed(shape), ...(nodeLost ? ["a machine of it was off"] : [])].join(", "),
  };
}

/** What its user does once it is over changes nothing about how it ended. */
function comesEarly({ deed }: JobShape, what: Deed["do"]): boolean {
  return deed?.do === what && deed.phase !== "cleaning-up";
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
      // Nothing ends it but its user.
      return [];
  }
}

/** A machine that is on again before it counts as lost ends what ran on it with the exit code of a signal: a failure like any other. */
function outcomesOfLoss({ intent, types }: JobShape): JobOutcome[] {
  if (intent === "pool-too-small") return [];
  const failsAtOnce = types.some(({ restartPolicy }) => restartPolicy === "Never");
  return ["Failed BackoffLimitExceeded", ...(failsAtOnce ? (["Failed PodFailed"] as const) : [])];
}

function describeDeed({ deed }: JobShape): string[] {
  return deed === undefined ? [] : [`its user does "${deed.do}" when it is ${deed.phase}`];
}
