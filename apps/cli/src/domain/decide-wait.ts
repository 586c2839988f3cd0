import { formatDuration } from "@muster/faults";
import { nearestName } from "@muster/documents";
import { isFinished, phaseOf, type Work } from "./work.ts";

/** What somebody waits for. */
export type Wish =
  { readonly for: "delete" } | { readonly for: "condition"; readonly type: string; readonly is: boolean };

/** Reads `delete`, `condition=TYPE` and `condition=TYPE=false`; undefined when the text is none of them. */
export function readWish(text: string): Wish | undefined {
  if (text === "delete") return { for: "delete" };
  const [word, type = "", value = "true", ...rest] = text.split("=");
  const is = ["true", "false"].indexOf(value.toLowerCase());
  if (word !== "condition" || type === "" || is < 0 || rest.length > 0) return undefined;
  return { for: "condition", type, is: is === 0 };
}

/** What is wrong with a wish about a kind that has these conditions; undefined when nothing is. */
export function checkWish(
  wish: Wish,
  { noun, conditions }: { readonly noun: string; readonly conditions: readonly string[] },
): { readonly message: string; readonly hint: string } | undefined {
  if (wish.for === "delete" || conditions.some((type) => isSame(type, wish.type))) return undefined;
  const near = nearestName(wish.type, conditions);
  return {
    message: `a ${noun} has no condition "${wish.type}"`,
    hint: near === undefined ? `it may have ${conditions.join(", ")}` : `did you mean "${near}"?`,
  };
}

/** `never`: nothing that can still happen fulfils the wish. */
export type WaitVerdict = "met" | "open" | "never";

/** Whether work is as it was wished. A condition of which nothing is said yet is neither true nor false. */
export function decideWait(work: Work, wish: Wish): WaitVerdict {
  if (wish.for === "delete") return "open";
  const condition = work.conditions.find(({ type }) => isSame(type, wish.type));
  if (condition?.isTrue === wish.is) return "met";
  return isFinished(work) ? "never" : "open";
}

/** Why a wait ends without its wish: `open` is a timeout, `never` a state that excludes the wish. */
export type Unmet = Exclude<WaitVerdict, "met"> | "deleted";

/** Why a wait was in vain, for people; `state` is a sentence about the object as it is now. */
export function describeUnmet(
  { named, state }: { readonly named: string; readonly state: string },
  wish: Wish,
  how: Unmet,
  timeoutMs: number,
): string {
  const wished = wish.for === "delete" ? "deletion" : `condition ${wish.type}${wish.is ? "" : "=false"}`;
  if (how === "deleted") return `${named} was deleted before it met ${wished}`;
  return how === "never"
    ? `${wished} can no longer be met: ${state}`
    : `timed out after ${formatDuration(timeoutMs)} waiting for ${wished}: ${state}`;
}

/** The state of work, and its reason. */
export function describeWork(work: Work): string {
  const last = work.events.at(-1);
  const said = isFinished(work) ? [last?.reason, last?.description] : [work.waitingBecause || last?.description];
  const parts = [`${work.kind} ${work.name} is ${phaseOf(work)}`, ...said];
  return parts.filter((each) => each !== undefined && each !== "").join(": ");
}

/** As in kubectl, no matter how letters are written. */
function isSame(one: string, other: string): boolean {
  return one.toLowerCase() === other.toLowerCase();
}
