import type { muster } from "@muster/proto";
import type { View } from "@muster/store";
import { type Milestone, getMilestone, MILESTONES } from "./domain/milestone.ts";
import type { JobObserver } from "./job-observer.ts";
import { toProgress } from "./messages.ts";

/** Follows the milestones of each session and job. */
export type Milestones = Disposable & {
  /** Resolves once the work has reached the milestone; rejects when the signal aborts. */
  readonly reached: (work: string, milestone: Milestone, signal: AbortSignal) => Promise<void>;
  readonly of: (work: string) => Milestone | undefined;
  readonly count: () => Readonly<Record<Milestone, number>>;
  /** Time of the last progress of any work, on the monotonic clock. */
  readonly progressedAtMs: () => number;
};

export function followMilestones(
  records: View<muster.session.v1.SessionRecord>,
  jobs: Pick<JobObserver, "milestone" | "onChange">,
): Milestones {
  const places = new Map<string, number>();
  const waiting = new Set<() => void>();
  let progressedAtMs = performance.now();
  const note = (name: string, milestone: Milestone | undefined): void => {
    if (milestone === undefined) return;
    const place = MILESTONES.indexOf(milestone);
    if (place <= (places.get(name) ?? -1)) return;
    places.set(name, place);
    progressedAtMs = performance.now();
    for (const check of [...waiting]) check();
  };
  const update = (name: string): void => {
    const record = records.get(name)?.value;
    if (record !== undefined) note(name, getMilestone(toProgress(record)));
  };
  const stops = [records.onChange(update), jobs.onChange((name) => note(name, jobs.milestone(name)))];
  for (const { key } of records.entries()) update(key);
  return {
    reached: (work, milestone, signal) =>
      new Promise((resolve, reject) => {
        const target = MILESTONES.indexOf(milestone);
        const leave = (): void => {
          waiting.delete(check);
          signal.removeEventListener("abort", giveUp);
        };
        const check = (): void => {
          if ((places.get(work) ?? -1) < target) return;
          leave();
          resolve();
        };
        const giveUp = (): void => {
          leave();
          reject(new Error("aborted before the milestone", { cause: signal.reason }));
        };
        waiting.add(check);
        signal.addEventListener("abort", giveUp);
        if (signal.aborted) giveUp();
        else check();
      }),
    of: (work) => MILESTONES[places.get(work) ?? -1],
    count: () => countAll(places),
    progressedAtMs: () => progressedAtMs,
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
