import type { muster } from "@muster/proto";
import type { View } from "@muster/store";
import { type Milestone, milestoneOf, MILESTONES } from "./domain/milestone.ts";
import { toProgress } from "./messages.ts";

/** How far each session has come, as it comes there. */
export type Milestones = Disposable & {
  /** Resolves at once when the session is there or further; rejects when the signal aborts. */
  readonly reached: (session: string, milestone: Milestone, signal: AbortSignal) => Promise<void>;
  readonly of: (session: string) => Milestone | undefined;
  readonly count: () => Readonly<Record<Milestone, number>>;
  /** On the monotonic clock: when a session came further for the last time. */
  readonly movedAtMs: () => number;
};

export function followMilestones(records: View<muster.session.v1.SessionRecord>): Milestones {
  const places = new Map<string, number>();
  const waiting = new Set<() => void>();
  let movedAtMs = performance.now();
  const look = (name: string): void => {
    const record = records.get(name)?.value;
    if (record === undefined) return;
    const place = MILESTONES.indexOf(milestoneOf(toProgress(record)));
    if (place <= (places.get(name) ?? -1)) return;
    places.set(name, place);
    movedAtMs = performance.now();
    for (const check of [...waiting]) check();
  };
  const stop = records.onChange(look);
  for (const { key } of records.entries()) look(key);
  return {
    reached: (session, milestone, signal) =>
      new Promise((resolve, reject) => {
        const wanted = MILESTONES.indexOf(milestone);
        const leave = (): void => {
          waiting.delete(check);
          signal.removeEventListener("abort", giveUp);
        };
        const check = (): void => {
          if ((places.get(session) ?? -1) < wanted) return;
          leave();
          resolve();
        };
        const giveUp = (): void => {
          leave();
          reject(new Error("the signal was given", { cause: signal.reason }));
        };
        waiting.add(check);
        signal.addEventListener("abort", giveUp);
        if (signal.aborted) giveUp();
        else check();
      }),
    of: (session) => MILESTONES[places.get(session) ?? -1],
    count: () => countAll(places),
    movedAtMs: () => movedAtMs,
    [Symbol.dispose]: stop,
  };
}

function countAll(places: ReadonlyMap<string, number>): Record<Milestone, number> {
  const counts = { queued: 0, accepted: 0, provisioning: 0, running: 0, "cleaning-up": 0, over: 0 };
  for (const place of places.values()) {
    const milestone = MILESTONES[place];
    if (milestone !== undefined) counts[milestone] += 1;
  }
  return counts;
}
