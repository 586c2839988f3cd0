import { countGang } from "./build-units.ts";
import type { JobSpec } from "./job.ts";
import type { JobStatus } from "./job-status.ts";
import type { JobStep, StopReason } from "./plan-steps.ts";
import type { GroupSettings, GroupSpec } from "./pod-group.ts";
import type { JobPolicy, ReplicaSeen, Snapshot } from "./snapshot.ts";

/** Keeps exactly one group for the gang, of the kind that the job's scheduler reads, with the current values of the spec. */
export function planGroup(snapshot: Snapshot, spec: JobSpec, status: JobStatus, policy: JobPolicy): JobStep[] {
  const { kind, existing: there } = snapshot.groups;
  const request = policy.gangScheduling ? spec.group : undefined;
  const own = request === undefined ? undefined : there.find(({ apiVersion }) => apiVersion === kind?.apiVersion);
  const others = there.filter((each) => each !== own).map((each) => deletion(each.apiVersion, "not-wanted"));
  if (request === undefined || kind === undefined) return others;
  const group = { ...request.settings, minMember: minMember(snapshot.replicas, spec, status) };
  if (own !== undefined && isSame(own.group, group, kind.fields)) return others;
  const because = own === undefined ? "missing" : "changed";
  return [...others, { kind: "sync-group", apiVersion: kind.apiVersion, group, because }];
}

export function planGroupDeletions({ groups }: Snapshot, because: StopReason | "handed-over"): JobStep[] {
  return groups.existing.map(({ apiVersion }) => deletion(apiVersion, because));
}

/** Returns the kind whose mark the pods of the job have; undefined if the pods have no mark. */
export function findGroupKind(
  { groups, spec }: Snapshot,
  policy: Pick<JobPolicy, "gangScheduling">,
): string | undefined {
  if ("problems" in spec || spec.group === undefined || !policy.gangScheduling) return undefined;
  return groups.kind?.apiVersion;
}

/** Returns the warning for a job whose pods are created without a group, although its scheduler expects one. */
export function findGroupAdvice(
  { groups, spec }: Snapshot,
  policy: Pick<JobPolicy, "gangScheduling">,
): string | undefined {
  if ("problems" in spec || spec.group === undefined || !policy.gangScheduling || groups.kind !== undefined)
    return undefined;
  return `scheduler ${spec.group.scheduler} places the pods one by one: the API server has no PodGroup, or the job-controller may not list them`;
}

/**
 * Returns the number of pods that must exist before the scheduler places any of them. Counts only pods that are created together, because the scheduler would
 * otherwise wait forever. Types that depend on others are created later, and completed members whose pods no longer exist are not recreated.
 */
function minMember(seen: readonly ReplicaSeen[], spec: JobSpec, status: JobStatus): number {
  const first = spec.replicas.filter(({ dependsOn }) => dependsOn.length === 0);
  const members = first.reduce((sum, replica) => {
    const slots = seen.find(({ type }) => type === replica.type)?.slots ?? [];
    const completed = status.replicas.find(({ type }) => type === replica.type)?.completedIndexes ?? [];
    const gone = completed.filter((index) => index < countGang(replica) && slots[index] === undefined);
    return sum + countGang(replica) - gone.length;
  }, 0);
  return Math.max(1, Math.min(spec.minAvailable ?? members, members));
}

function isSame(there: GroupSpec, wanted: GroupSpec, fields: readonly (keyof GroupSettings)[]): boolean {
  const compared = fields.filter((field) => field !== "queue" || there.queue === undefined);
  return [...compared, "minMember" as const].every(
    (field) => wanted[field] === undefined || formatValue(wanted[field]) === formatValue(there[field]),
  );
}

/** Returns equal texts for equal values, whatever the order of their fields. */
function formatValue(value: GroupSpec[keyof GroupSpec]): string {
  return JSON.stringify(typeof value === "object" ? Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)) : value);
}

function deletion(apiVersion: string, because: StopReason | "handed-over" | "not-wanted"): JobStep {
  return { kind: "delete-group", apiVersion, because };
}
