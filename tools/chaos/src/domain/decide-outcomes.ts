import type { SessionShape } from "./plan-session-shapes.ts";

export const TERMINALS = ["DONE", "ERROR", "CANCELLED", "INTERNAL_ERROR"] as const;
export type Terminal = (typeof TERMINALS)[number];

/** The outcome of a session: `DONE`, `CANCELLED`, `INTERNAL_ERROR`, or `ERROR` with its stable code. */
export type Outcome =
  | "DONE"
  | "CANCELLED"
  | "INTERNAL_ERROR"
  | `ERROR ${"COMPONENT_FAILED" | "MACHINE_LOST" | "TIMEOUT" | "QUEUE_TIMEOUT" | "POOL_UNKNOWN" | "POOL_CAPACITY"}`;

/** The faults that affected this session. */
export type FaultHits = {
  /** Whether one of its machines was off between its grant and its end. */
  readonly nodeLost: boolean;
  /** A fault was in force during its life, and may have used up its time. */
  readonly disturbed: boolean;
};

export type Expectation = {
  readonly outcomes: readonly Outcome[];
  /** Whether a session that is DONE must have the result of its driver. A lost machine loses the log. */
  readonly resultWhenDone: "present" | "perhaps";
  readonly because: string;
};

/** The allowed outcomes of a session of this shape with these faults. Every other outcome is a defect. */
export function decideOutcomes(shape: SessionShape, hits: FaultHits): Expectation {
  const own = listOutcomes(shape, hits);
  const outcomes = new Set<Outcome>(own);
  if (hits.nodeLost && !isImpossible(shape)) outcomes.add("ERROR COMPONENT_FAILED").add("ERROR MACHINE_LOST");
  if (isCancellable(shape)) outcomes.add("CANCELLED");
  return {
    outcomes: [...outcomes].sort(),
    resultWhenDone: hits.nodeLost ? "perhaps" : "present",
    because: describe(shape, hits),
  };
}

function listOutcomes(shape: SessionShape, { disturbed }: FaultHits): Outcome[] {
  const whenDisturbed: Outcome[] = disturbed ? ["INTERNAL_ERROR"] : [];
  switch (shape.intent) {
    case "good":
      // Only its user ends an endless session.
      return isEndless(shape) ? [] : ["DONE"];
    case "driver-fails":
    case "worker-fails":
    case "image-missing":
      return ["ERROR COMPONENT_FAILED"];
    case "never-ready":
    case "time-limit":
      return ["ERROR TIMEOUT", ...whenDisturbed];
    case "queue-limit":
      return ["DONE", "ERROR QUEUE_TIMEOUT", ...whenDisturbed];
    case "pool-unknown":
      return ["ERROR POOL_UNKNOWN"];
    case "pool-too-small":
      return ["ERROR POOL_CAPACITY"];
  }
}

function isImpossible({ intent }: SessionShape): boolean {
  return intent === "pool-unknown" || intent === "pool-too-small";
}

/** A cancellation does not change a known outcome. */
function isCancellable({ cancel }: SessionShape): boolean {
  return cancel !== undefined && cancel.phase !== "cleaning-up";
}

function isEndless({ pods }: SessionShape): boolean {
  return pods.some(({ kind, ends }) => kind === "driver" && ends === undefined);
}

function describe(shape: SessionShape, hits: FaultHits): string {
  const parts = [
    shape.intent,
    ...(shape.cancel === undefined ? [] : [`cancelled when ${shape.cancel.phase}`]),
    ...(isEndless(shape) && shape.intent === "good" ? ["its driver does not end by itself"] : []),
    ...(hits.nodeLost ? ["one of its machines was off"] : []),
    ...(hits.disturbed ? ["faults during its life"] : []),
  ];
  return parts.join(", ");
}
