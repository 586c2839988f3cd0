import { findFault } from "@muster/faults";
import type { Cli, ConnectedCli } from "../cli.ts";
import type { WaitGoal, WaitVerdict } from "../domain/decide-wait.ts";
import type { WaitOperations } from "../kinds/resource.ts";
import { keepContact, type ServiceContact } from "./service-contact.ts";

/** The service has no long poll for these parts, because they change without the record. */
const POLL_MS = 1000;

type FollowDeps<Item> = {
  /** Reads the next state. A long poll answers once the record differs from `seen`, or after some seconds. */
  readonly next: (seen: Item, signal: AbortSignal) => Promise<Item>;
  readonly contact: Pick<ServiceContact, "ask">;
  /** The name of the item in messages. */
  readonly title: string;
  /** Runs before each call if `next` is no long poll. */
  readonly pause?: (signal: AbortSignal) => Promise<void>;
  readonly changed?: (item: Item) => void;
  readonly isEnough: (item: Item) => boolean;
};

/**
 * Follows one item until `isEnough` accepts its state, and returns that state; after an abort, the last state read. Rejects if the item is deleted, or contact
 * is lost for longer than the limit.
 */
export async function followItem<Item extends object>(
  { next, contact, title, pause, changed, isEnough }: FollowDeps<Item>,
  start: Item,
  signal: AbortSignal,
): Promise<Item> {
  let item = start;
  while (!isEnough(item) && !signal.aborted) {
    const seen = item;
    await pause?.(signal);
    const found = await contact.ask(title, () => next(seen, signal), signal);
    if (found === undefined) break;
    if (revisionOf(found) !== revisionOf(seen)) changed?.(found);
    item = found;
  }
  return item;
}

/** The revision differs whenever the record does. */
function revisionOf(item: object): unknown {
  return "revision" in item ? item.revision : undefined;
}

/** The properties of a resource that following needs. */
type Followable<Item extends object> = Pick<
  WaitOperations<Item>,
  "decide" | "isLongPoll" | "uidOf" | "isMetByDeletion"
> &
  Required<Pick<WaitOperations<Item>, "next">>;

type FollowOptions<Item> = {
  readonly goal: WaitGoal;
  readonly timeoutMs: number | undefined;
  /** Printed to standard error whenever it differs; undefined prints nothing. */
  readonly line?: (item: Item) => string | undefined;
  /** Printed after Ctrl-C, which does not end the item: the item's further course. */
  readonly left?: (last: Item) => string;
};

/** `last` is the last state read, and `verdict` why following has ended; `open` means a timeout. */
type Followed<Item> = { readonly last: Item; readonly verdict: WaitVerdict | "deleted" | "interrupted" };

/** Follows one item until it meets the goal or can no longer meet it, at most until the timeout. */
export async function followGoal<Item extends object>(
  cli: Cli,
  connected: ConnectedCli,
  waiting: Followable<Item>,
  start: Item,
  { goal, timeoutMs, line, left }: FollowOptions<Item>,
): Promise<Followed<Item>> {
  const state: { last: Item; verdict: Followed<Item>["verdict"] } = { last: start, verdict: "open" };
  let printed: string | undefined;
  const isEnough = (item: Item): boolean => {
    const isOther = waiting.uidOf?.(item) !== waiting.uidOf?.(start);
    state.verdict = isOther ? "deleted" : waiting.decide(item, goal);
    if (isOther) return true;
    state.last = item;
    const text = line?.(item);
    if (text !== undefined && text !== printed) cli.io.err([text]);
    printed = text ?? printed;
    return state.verdict !== "open";
  };
  const timeout = new AbortController();
  const over = new AbortController();
  if (timeoutMs !== undefined) void cli.pause(timeoutMs, over.signal).then(() => timeout.abort());
  const stop = AbortSignal.any([cli.interrupts.first, timeout.signal]);
  using contact = keepContact(cli, connected);
  const deps = {
    ...{ contact, title: "state", isEnough },
    next: (seen: Item, signal: AbortSignal) => waiting.next(connected, seen, signal),
    ...(waiting.isLongPoll !== true && { pause: (signal: AbortSignal) => cli.pause(POLL_MS, signal) }),
  };
  try {
    await followItem(deps, start, stop);
  } catch (error) {
    if (findFault(error)?.code !== "not_found") throw error;
    state.verdict = "deleted";
  } finally {
    over.abort();
  }
  const { last, verdict } = state;
  if (verdict === "open" && cli.interrupts.first.aborted) {
    if (left !== undefined) cli.io.err([`left: ${left(last)}`]);
    return { last, verdict: "interrupted" };
  }
  if (verdict !== "deleted") return { last, verdict };
  const isMet = await (waiting.isMetByDeletion?.(connected, { start, last }, goal) ?? goal.kind === "delete");
  return { last, verdict: isMet ? "met" : verdict };
}
