import { randomBytes } from "node:crypto";
import { describeFault, FaultError, findFault, isRetryable, type Fault } from "@muster/faults";
import { buildProblem, type Problem } from "../domain/build-problem.ts";
import type { Items } from "../domain/plan-changes.ts";
import { changeHistory, type HistoryLimits, type NumberedChange } from "./change-history.ts";

/** One list that is followed for all its watchers. */
export type WatchFeed = {
  /** The prefix of the ids of its changes. Another process, and a later feed of the same list, have a different prefix. */
  readonly id: string;
  readonly items: Items;
  readonly last: number;
  /** The characters of the changes that are kept for readers that reconnect. */
  readonly keptCharacters: number;
  after(number: number): readonly NumberedChange[] | undefined;
  /** True once the list was read. */
  readonly isRead: boolean;
  /** Why the list is not current, for people; undefined if it is. */
  readonly trouble: string | undefined;
  /** Why the watch of the list has ended; undefined while it is active. */
  readonly end: Problem | undefined;
  /** Calls the listener at each change of these fields, until disposed. */
  onChange(listener: () => void): Disposable;
};

/** Ends a feed, also if its fault is temporary. */
export class FeedRefused extends FaultError {}

export type FeedOptions = HistoryLimits & {
  /** Reads the whole list. Rejects with FaultError if its service does not answer, and with FeedRefused if the list may not be followed any more. */
  readonly read: (signal: AbortSignal) => Promise<Items>;
  /** Resolves when the list must be read again, after a read that found this many changes. */
  readonly pause: (changes: number, signal: AbortSignal) => Promise<unknown>;
  readonly signal: AbortSignal;
};

/** Follows a list until the signal, or a fault that no later read can pass. `ended` rejects with a defect. */
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
      // Each subscription has its own entry, even for the same function.
      const own = (): void => listener();
      listeners.add(own);
      return { [Symbol.dispose]: () => void listeners.delete(own) };
    },
  };
  return { feed, ended: follow() };
}

/** Whether the fault is caused by the request itself, so that no later read succeeds. */
function isOfRequest(fault: Fault): boolean {
  return !isRetryable(fault) && buildProblem(fault).status < 500;
}
