import { formatDuration } from "@muster/faults";
import { suggestName } from "./suggest-name.ts";
import { isFinished, getWorkPhase, type Work } from "./work.ts";

/** The value of `--for`: a deletion, or a condition of this type that is true or false. */
export type WaitGoal =
  { readonly kind: "delete" } | { readonly kind: "condition"; readonly type: string; readonly isTrue: boolean };

/** Reads `delete`, `condition=TYPE` and `condition=TYPE=false`; undefined for any other text. */
export function readGoal(text: string): WaitGoal | undefined {
  if (text === "delete") return { kind: "delete" };
  const [word, type = "", value = "true", ...rest] = text.split("=");
  const index = ["true", "false"].indexOf(value.toLowerCase());
  if (word !== "condition" || type === "" || index < 0 || rest.length > 0) return undefined;
  return { kind: "condition", type, isTrue: index === 0 };
}

/** Returns the problem of a goal for a kind with these conditions; undefined if it has none. */
export function checkGoal(
  goal: WaitGoal,
  { noun, conditions }: { readonly noun: string; readonly conditions: readonly string[] },
): { readonly message: string; readonly hint: string } | undefined {
  if (goal.kind === "delete" || conditions.some((type) => isSame(type, goal.type))) return undefined;
  return {
    message: `a ${noun} has no condition "${goal.type}"`,
    hint: suggestName(goal.type, conditions, `it may have ${conditions.join(", ")}`),
  };
}

/** `never`: no later state can meet the goal. */
export type WaitVerdict = "met" | "open" | "never";

/** Decides whether work meets the goal. A condition that is not reported yet is neither true nor false. */
export function decideWait(work: Work, goal: WaitGoal): WaitVerdict {
  if (goal.kind === "delete") return "open";
  const condition = work.conditions.find(({ type }) => isSame(type, goal.type));
  if (condition?.isTrue === goal.isTrue) return "met";
  return isFinished(work) ? "never" : "open";
}

/** The cause of a failed wait: `open` is a timeout, `never` a state that excludes the goal. */
export type UnmetGoal = Exclude<WaitVerdict, "met"> | "deleted";

/** Describes for people why a wait failed; `state` is a sentence about the current state of the object. */
export function describeUnmetGoal(
  { named, state }: { readonly named: string; readonly state: string },
  goal: WaitGoal,
  how: UnmetGoal,
  timeoutMs: number,
): string {
  const awaited = goal.kind === "delete" ? "deletion" : `condition ${goal.type}${goal.isTrue ? "" : "=false"}`;
  if (how === "deleted") return `${named} was deleted before it met ${awaited}`;
  return how === "never" ? `${awaited} can no longer be met: ${state}` : describeTimeout(timeoutMs, awaited, state);
}

/** Formats the message of a timeout, without the name of the object. */
export function describeTimeoutOf(timeoutMs: number | undefined, state: string): string {
  return `timed out after ${formatDuration(timeoutMs ?? 0)}: ${state}`;
}

export function describeTimeout(timeoutMs: number, awaited: string, state: string): string {
  return `timed out after ${formatDuration(timeoutMs)} waiting for ${awaited}: ${state}`;
}

/** Describes the state of work, and its reason. */
export function describeWork(work: Work): string {
  const last = work.events.at(-1);
  const reasons = isFinished(work) ? [last?.reason, last?.description] : [work.waitingBecause || last?.description];
  const parts = [`${work.kind} ${work.name} is ${getWorkPhase(work)}`, ...reasons];
  return parts.filter((each) => each !== undefined && each !== "").join(": ");
}

/** Compares without regard to case, as kubectl does. */
function isSame(one: string, other: string): boolean {
  return one.toLowerCase() === other.toLowerCase();
}
