import { randomBytes } from "node:crypto";
import { describeFault, FaultError, findFault, isRetryable, type Fault } from "@muster/faults";
import { buildProblem, type Problem } from "../domain/build-problem.ts";
import type { Items } from "../domain/plan-changes.ts";
import { changeHistory, type HistoryLimits, type NumberedChange } from "./change-history.ts";

/** One followed list, which all its watchers share. */
export type WatchFeed = {
  /** The prefix of the ids of the feed's changes. Another process, and a later feed of this list, use a different prefix. */
  readonly id: string;
  readonly items: Items;
  readonly last: number;
  /** Number of characters in the changes that are kept for readers that reconnect. */
  readonly keptCharacters: number;
  after(number: number): readonly NumberedChange[] | undefined;
  /** True once the list was read. */
  readonly isRead: boolean;
  /** The reason why the list is not current, for people; undefined if it is current. */
  readonly trouble: string | undefined;
  /** The reason why the watch of the list has ended; undefined while it is active. */
  readonly end: Problem | undefined;
  /** Calls the listener at each change of these fields, until disposed. */
  onChange(listener: () => void): Disposable;
};

/** Ends a feed, even if the fault is temporary. */
export class FeedRefused extends FaultError {}

export type FeedOptions = HistoryLimits & {
  /** Reads the whole list. Rejects with FaultError if its service does not answer, and with FeedRefused if the list may not be followed any more. */
  readonly read: (signal: AbortSignal) => Promise<Items>;
  /** Resolves when the list must be read again; `changes` is the number of changes that the last read found. */
  readonly pause: (changes: number, signal: AbortSignal) => Promise<unknown>;
  readonly signal: AbortSignal;
};

/** Follows a list until the signal, or until a fault that every later read would have. `ended` rejects with a defect. */
export function openWatchFeed({ read, pause, signal, ...limits }: FeedOptions): {
  readonly feed: WatchFeed;
  readonly ended: Promise<void>;
} {
  const id = randomBytes(6).toString("hex");
  const history = changeHistory(limits);
  let isRead = false;
  let trouble: string | undefined;
  let end: Problem | undefined;
  const listeners = new Set<() => void>();
  const notifyAll = (): void => {
    for (const notify of listeners) notify();
  };
  const readOnce = async (): Promise<number> => {
    const before = trouble;
    const wasRead = isRead;
    let changes = 0;
    try {
      changes = history.advance(await read(signal));
      isRead = true;
      trouble = undefined;
    } catch (error) {
      const fault = findFault(error);
      if (fault === undefined || isOfRequest(fault) || error instanceof FeedRefused) {
        end = buildProblem(fault ?? { code: "internal", operation: "the watch" });
        notifyAll();
        if (fault === undefined) throw error;
        return 0;
      }
      trouble = describeFault(fault);
    }
    if (changes > 0 || trouble !== before || isRead !== wasRead) notifyAll();
    return changes;
  };
  const follow = async (): Promise<void> => {
    while (!signal.aborted) {
      const changes = await readOnce();
      if (end !== undefined) return;
      await pause(changes, signal);
    }
  };
  const feed: WatchFeed = {
    id,
    get items() {
      return history.items;
    },
    get last() {
      return history.last;
    },
    get keptCharacters() {
      return history.characters;
    },
    get isRead() {
      return isRead;
    },
    get trouble() {
      return trouble;
    },
    get end() {
      return end;
    },
    after: (number) => history.after(number),
    onChange: (listener) => {
      // Each subscription has its own entry, even if two subscriptions pass one function.
      const own = (): void => listener();
      listeners.add(own);
      return { [Symbol.dispose]: () => void listeners.delete(own) };
    },
  };
  return { feed, ended: follow() };
}

/** Returns whether the request itself causes the fault, so that every later read fails too. */
function isOfRequest(fault: Fault): boolean {
  return !isRetryable(fault) && buildProblem(fault).status < 500;
}
