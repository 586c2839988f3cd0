import type { KubeConfig } from "@kubernetes/client-node";
import { openInformer, toKubeFault, listWatch, type Informer } from "@muster/kube";
import { JOB_SET } from "@muster/names";
import type { KindDefaults } from "../../domain/kind.ts";
import { BATCH_RESOURCES, toJobSetRow, buildRowOwnerId, type JobRow, type StoredJobSet } from "./batch-rows.ts";

/** A cache of JobSets for an API server that may not serve them. */
export type JobSets = AsyncDisposable &
  Pick<Informer<JobRow>, "get" | "onChange"> & {
    list(): readonly JobRow[];
    byOwner(ownerId: string): readonly JobRow[];
    /** Whether a list was complete, or the API server serves no JobSets. */
    isComplete(): boolean;
    /** Returns the age of the cache; 0 if the API server serves no JobSets. */
    ageMs(): number;
    isListed(): boolean;
  };

type JobSetOptions = {
  /** A path: `/namespaces/team-a`, or empty for every namespace. */
  readonly within: string;
  readonly defaults: KindDefaults;
  /** A newly installed definition is found after this time at the latest. */
  readonly discoverMs: number;
  /** Called for every failure, except that the API server does not serve JobSets. */
  readonly onError: (error: unknown, retryInMs: number) => void;
};

/** An API server that is still loading definitions may report an installed one as missing once, so a second answer confirms the absence. */
const ABSENCES = 2;
const MIN_BACKOFF_MS = 500;

export function followJobSets(kube: KubeConfig, { within, defaults, discoverMs, onError }: JobSetOptions): JobSets {
  const { apiVersion, plural } = BATCH_RESOURCES[JOB_SET];
  let absences = 0;
  let absentAtMs = -Infinity;
  /** Whether the API server has answered a list since it last reported JobSets as missing. */
  const isServed = (): boolean => sets.ageMs() < performance.now() - absentAtMs;
  const sets = openInformer<StoredJobSet, JobRow, "owner">({
    source: listWatch<StoredJobSet>(kube, `/apis/${apiVersion}${within}/${plural}`),
    project: (jobSet) => toJobSetRow(jobSet, defaults),
    indexes: { owner: (row) => [buildRowOwnerId(row)] },
    timing: { minBackoffMs: Math.min(MIN_BACKOFF_MS, discoverMs), maxBackoffMs: discoverMs },
    onError: (error, retryInMs) => {
      if (toKubeFault(error)?.code !== "not_found") {
        onError(error, retryInMs);
        return;
      }
      absences = isServed() ? 1 : absences + 1;
      absentAtMs = performance.now();
    },
  });
  const isAbsent = (): boolean => absences >= ABSENCES && !isServed();
  const isListed = (): boolean => Number.isFinite(sets.listAgeMs());
  return {
    get: (key) => (isAbsent() ? undefined : sets.get(key)),
    list: () => (isAbsent() ? [] : sets.list()),
    byOwner: (ownerId) => sets.byIndex("owner", ownerId),
    onChange: sets.onChange,
    isListed,
    isComplete: () => isListed() || isAbsent(),
    ageMs: () => (isAbsent() ? 0 : sets.ageMs()),
    [Symbol.asyncDispose]: () => sets[Symbol.asyncDispose](),
  };
}
