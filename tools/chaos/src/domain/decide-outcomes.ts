import type { Shape } from "./plan-shapes.ts";

export const TERMINALS = ["DONE", "ERROR", "CANCELLED", "INTERNAL_ERROR"] as const;
export type Terminal = (typeof TERMINALS)[number];

/** How a session ended: `DONE`, `CANCELLED`, `INTERNAL_ERROR`, or `ERROR` with its stable word. */
export type Outcome =
  | "DONE"
  | "CANCELLED"
  | "INTERNAL_ERROR"
  | `ERROR ${"COMPONENT_FAILED" | "MACHINE_LOST" | "TIMEOUT" | "QUEUE_TIMEOUT" | "POOL_UNKNOWN" | "POOL_CAPACITY"}`;

/** What of all that happened hit this session. */
export type Hits = {
  /** A machine of it was off at some time between its grant and its end. */
  readonly nodeLost: boolean;
  /** Any fault at all was in force during its life, so that an infrastructure in trouble may have used up its time. */
  readonly disturbed: boolean;
};

export type Expectation = {
  readonly outcomes: readonly Outcome[];
  /** Whether a session that is DONE must have the result that its driver left. A machine that was lost has taken the log along. */
  readonly resultWhenDone: "present" | "perhaps";
  readonly because: string;
};

/** Every right outcome of a session of this shape that was hit so. Anything else is a defect. */
export function decideOutcomes(shape: Shape, hits: Hits): Expectation {
  const own = outcomesOf(shape, hits);
  const outcomes = new Set<Outcome>(own);
  if (hits.nodeLost && !isImpossible(shape)) outcomes.add("ERROR COMPONENT_FAILED").add("ERROR MACHINE_LOST");
  if (isCancellable(shape)) outcomes.add("CANCELLED");
  return {
    outcomes: [...outcomes].sort(),
    resultWhenDone: hits.nodeLost ? "perhaps" : "present",
    because: describe(shape, hits),
  };
}

function outcomesOf(shape: Shape, { disturbed }: Hits): Outcome[] {
  const inTrouble: Outcome[] = disturbed ? ["INTERNAL_ERROR"] : [];
  switch (shape.intent) {
    case "good":
      // Nothing ends it but its user.
      return isEndless(shape) ? [] : ["DONE"];
    case "driver-fails":
    case "worker-fails":
    case "image-missing":
      return ["ERROR COMPONENT_FAILED"];
    case "never-ready":
    case "time-limit":
      return ["ERROR TIMEOUT", ...inTrouble];
    case "queue-limit":
      return ["DONE", "ERROR QUEUE_TIMEOUT", ...inTrouble];
    case "pool-unknown":
      return ["ERROR POOL_UNKNOWN"];
    case "pool-too-small":
      return ["ERROR POOL_CAPACITY"];
  }
}

function isImpossible({ intent }: Shape): boolean {
  return intent === "pool-unknown" || intent === "pool-too-small";
}

/** Once it is known how a session ends, a cancellation changes nothing. */
function isCancellable({ cancel }: Shape): boolean {
  return cancel !== undefined && cancel.phase !== "cleaning-up";
}

function isEndless({ pods }: Shape): boolean {
  return pods.some(({ kind, ends }) => kind === "driver" && ends === undefined);
}

function describe(shape: Shape, hits: Hits): string {
  const parts = [
    shape.intent,
    ...(shape.cancel === undefined ? [] : [`cancelled when ${shape.cancel.phase}`]),
    ...(isEndless(shape) && shape.intent === "good" ? ["its driver does not end by itself"] : []),
    ...(hits.nodeLost ? ["a machine of it was off"] : []),
    ...(hits.disturbed ? ["faults in its life"] : []),
  ];
  return parts.join(", ");
}
