import { useMemo } from "react";
import type { FeedState } from "../domain/fold-feed.ts";
import { workOfJob, workOfLease, workOfSession, workOfSet, type Work } from "../domain/work.ts";
import { useFeed } from "./use-feed.ts";

/** Returns all work of every kind, newest first, with the feeds of the lists. */
export function useWork(): { readonly work: readonly Work[]; readonly feeds: readonly NamedFeed[] } {
  const sessions = useFeed("sessions");
  const jobs = useFeed("jobs");
  const sets = useFeed("replica-sets");
  const leases = useFeed("leases");
  const work = useMemo(
    () =>
      [
        ...sessions.list.map(workOfSession),
        ...jobs.list.map(workOfJob),
        ...sets.list.map(workOfSet),
        ...leases.list.map(workOfLease),
      ].sort((one, other) => other.createdAtMs - one.createdAtMs),
    [sessions.list, jobs.list, sets.list, leases.list],
  );
  const feeds = [
    { name: "sessions", feed: sessions },
    { name: "jobs", feed: jobs },
    { name: "replica sets", feed: sets },
    { name: "leases", feed: leases },
  ];
  return { work, feeds };
}

export type NamedFeed = { readonly name: string; readonly feed: Pick<FeedState<unknown>, "status" | "detail"> };
