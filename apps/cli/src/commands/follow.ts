import { faultOf } from "@muster/faults";
import type { Cli, Connected } from "../cli.ts";
import type { Contact } from "./contact.ts";
import { keepContact } from "./keep-contact.ts";

/** Parts of a state change without its record, so that its service has no long poll for it. */
const POLL_MS = 1000;

/** Differs whenever the record does. */
type Revised = { readonly revision: number | string };

export type FollowDeps<Item> = {
  /** The next state. A long poll answers once the record differs from `seen`, or after some seconds. */
  readonly next: (seen: Item, signal: AbortSignal) => Promise<Item>;
  readonly contact: Pick<Contact, "ask">;
  /** Names what is followed. */
  readonly title: string;
  /** Before each call where `next` is no long poll. */
  readonly pause?: (signal: AbortSignal) => Promise<void>;
  readonly changed?: (item: Item) => void;
  readonly isEnough: (item: Item) => boolean;
};

/**
 * Follows one item until its state is enough, and returns that state; the last one seen when the signal is aborted first. Rejects when the item is gone, and
 * when contact is lost for good.
 */
export async function follow<Item extends Revised>(
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
    if (found.revision !== seen.revision) changed?.(found);
    item = found;
  }
  return item;
}

/** Why following has ended: the state is enough, the item does not exist any more, the time is over, or Ctrl-C. */
export type Ended<Item> = { readonly last: Item; readonly end: "enough" | "gone" | "timeout" | "interrupted" };

export type Followed<Item> = {
  readonly start: Item;
  readonly next: FollowDeps<Item>["next"];
  readonly isLongPoll?: boolean | undefined;
  readonly isEnough: (item: Item) => boolean;
  readonly timeoutMs: number | undefined;
};

/** Follows one item until its state is enough, at most for the time. */
export async function followItem<Item extends Revised>(
  cli: Cli,
  connected: Connected,
  { start, next, isLongPoll = false, isEnough, timeoutMs }: Followed<Item>,
): Promise<Ended<Item>> {
  const timeout = new AbortController();
  const over = new AbortController();
  if (timeoutMs !== undefined) void cli.pause(timeoutMs, over.signal).then(() => timeout.abort());
  const stop = AbortSignal.any([cli.interrupts.first, timeout.signal]);
  using contact = keepContact(cli, connected);
  const state = { last: start, isEnough: false };
  const deps = {
    ...{ next, contact, title: "state" },
    ...(!isLongPoll && { pause: (signal: AbortSignal) => cli.pause(POLL_MS, signal) }),
    isEnough: (item: Item): boolean => {
      state.last = item;
      state.isEnough = isEnough(item);
      return state.isEnough;
    },
  };
  try {
    await follow(deps, start, stop);
    if (state.isEnough) return { last: state.last, end: "enough" };
    return { last: state.last, end: cli.interrupts.first.aborted ? "interrupted" : "timeout" };
  } catch (error) {
    if (faultOf(error)?.code === "not_found") return { last: state.last, end: "gone" };
    throw error;
  } finally {
    over.abort();
  }
}

/** Follows one item, and prints a line to standard error whenever that changes. Ctrl-C leaves the item running. Throws `timedOut` when the time is over. */
export async function followWithLines<Item extends Revised>(
  cli: Cli,
  connected: Connected,
  followed: Followed<Item> & {
    /** Undefined: nothing new to print. */
    readonly line: (item: Item) => string | undefined;
    /** What becomes of the item after Ctrl-C. */
    readonly left: (last: Item) => string;
    readonly timedOut: (last: Item) => Error;
  },
): Promise<Ended<Item>> {
  const { line, left, timedOut, isEnough } = followed;
  let printed: string | undefined;
  const ended = await followItem(cli, connected, {
    ...followed,
    isEnough: (item) => {
      const text = line(item);
      if (text !== undefined && text !== printed) cli.io.err([text]);
      printed = text ?? printed;
      return isEnough(item);
    },
  });
  if (ended.end === "timeout") throw timedOut(ended.last);
  if (ended.end === "interrupted") cli.io.err([`left: ${left(ended.last)}`]);
  return ended;
}
