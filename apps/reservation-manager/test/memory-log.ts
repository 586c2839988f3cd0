import { FaultError } from "@muster/faults";
import type { Log } from "@muster/store";
import { emptyLedger, evolveLedger, type Ledger, type LedgerEvent } from "../src/domain/ledger/ledger.ts";

/** A log in memory whose writes the test finishes or fails. */
export type MemoryLog = Pick<Log<Ledger, LedgerEvent>, "state" | "transact" | "onCommit"> & {
  readonly waiting: number;
  /** Commits all pending decisions. */
  commit(): void;
  /** Drops all pending decisions; later decisions see the committed ledger. */
  giveUp(): void;
};

export function makeMemoryLog(): MemoryLog {
  let durable = emptyLedger;
  let tentative = emptyLedger;
  let waiting: { events: readonly LedgerEvent[]; answer: () => void; refuse: (error: unknown) => void }[] = [];
  const listeners: ((events: readonly LedgerEvent[], ledger: Ledger) => void)[] = [];
  return {
    get state() {
      return durable;
    },
    get waiting() {
      return waiting.length;
    },
    onCommit: (listener) => {
      listeners.push(listener);
    },
    transact: (decide) =>
      new Promise((resolve, reject) => {
        const { events, result } = decide(tentative);
        tentative = events.reduce(evolveLedger, tentative);
        const answer = (): void => {
          resolve(result);
        };
        waiting.push({ events, answer, refuse: reject });
      }),
    commit: () => {
      const done = waiting;
      waiting = [];
      durable = done.flatMap(({ events }) => events).reduce(evolveLedger, durable);
      for (const listener of listeners)
        listener(
          done.flatMap(({ events }) => events),
          durable,
        );
      for (const { answer } of done) answer();
    },
    giveUp: () => {
      const lost = waiting;
      waiting = [];
      tentative = durable;
      const fault = { code: "unavailable", dependency: "log", retryAfterMs: 1 } as const;
      for (const { refuse } of lost) refuse(new FaultError(fault));
    },
  };
}
