import type { muster } from "@muster/proto";
import type { View } from "@muster/store";
import { type Milestone, milestoneOf, MILESTONES } from "./domain/milestone.ts";
import type { JobObserver } from "./job-observer.ts";
import { toProgress } from "./messages.ts";

/** How far each session and job has come, as it comes there. */
export type Milestones = Disposable & {
  /** Resolves at once when the work is there or further; rejects when the signal aborts. */
  readonly reached: (work: string, milestone: Milestone, signal: AbortSignal) => Promise<void>;
  readonly of: (work: string) => Milestone | undefined;
  readonly count: () => Readonly<Record<Milestone, number>>;
  /** On the monotonic clock: when any work came further for the last time. */
  readonly movedAtMs: () => number;
};

export function followMilestones(
  records: View<muster.session.v1.SessionRecord>,
  jobs: Pick<JobObserver, "milestone" | "onChange">,
): Milestones {
  const places = new Map<string, number>();
  const waiting = new Set<() => void>();
  let movedAtMs = performance.now();
  const note = (name: string, milestone: Milestone | undefined): void => {
    if (milestone === undefined) return;
    const place = MILESTONES.indexOf(milestone);
    if (place <= (places.get(name) ?? -1)) return;
    places.set(name, place);
    movedAtMs = performance.now();
    for (const check of [...waiting]) check();
  };
  const look = (name: string): void => {
    const record = records.get(name)?.value;
    if (record !== undefined) note(name, milestoneOf(toProgress(record)));
  };
  const stops = [records.onChange(look), jobs.onChange((name) => note(name, jobs.milestone(name)))];
  for (const { key } of records.entries()) look(key);
  return {
    reached: (work, milestone, signal) =>
      new Promise((resolve, reject) => {
        const wanted = MILESTONES.indexOf(milestone);
        const leave = (): void => {
          waiting.delete(check);
          signal.removeEventListener("abort", giveUp);
        };
        const check = (): void => {
          if ((places.get(work) ?? -1) < wanted) return;
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
    of: (work) => MILESTONES[places.get(work) ?? -1],
    count: () => countAll(places),
    movedAtMs: () => movedAtMs,
    [Symbol.dispose]: () => {
      for (const stop of stops) stop();
    },
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
