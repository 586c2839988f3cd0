import { decideJobOutcomes } from "./decide-job-outcomes.ts";
import type { Finding } from "./finding.ts";
import { type JobSeen, groupNodesByWork, type RunObservations, type PodSeen } from "./observed.ts";
import { type JobShape, countMembers } from "./plan-jobs.ts";

/** Pods of a lost machine are detected when it is on again. */
const LOST_AFTER_MS = 3000;

/** Returns the violations of the jobs of a run, except those of machines. */
export function judgeJobs(shapes: readonly JobShape[], observed: RunObservations): Finding[] {
  return shapes.flatMap((shape) => judgeJob(shape, observed));
}

function judgeJob(shape: JobShape, observed: RunObservations): Finding[] {
  const { name } = shape;
  const finding = (rule: string, expected: string, found: string): Finding => ({ work: name, rule, expected, found });
  const refused = observed.refused.get(name);
  if (refused !== undefined) return [finding("a valid request is not refused", "an acknowledgement", refused)];
  const job = observed.jobs.get(name);
  if (job === undefined) {
    return [
      observed.acknowledged.has(name)
        ? finding("an acknowledged submission is never lost", "the job exists", "the job never existed")
        : finding("every submission is acknowledged in the end", "the job exists", "it was never acknowledged"),
    ];
  }
  const pods = observed.pods.filter(({ kind, work }) => kind === "job" && work === name);
  return [
    ...judgeEnd(shape, job, observed, finding),
    ...(observed.left.jobs.includes(name)
      ? [finding("no expired or deleted job is left", "it is deleted", `it exists: ${job.state}`)]
      : []),
    ...(shape.ttlS === undefined && shape.userAction?.kind !== "delete" && job.goneMs !== undefined
      ? [finding("a job without a deletion stays", "it exists", "it is deleted")]
      : []),
    ...judgeTwins(pods),
    ...judgeCreations(shape, pods, observed, finding),
  ];
}

type MakeFinding = (rule: string, expected: string, found: string) => Finding;

function judgeEnd(
  shape: JobShape,
  { ends, state }: JobSeen,
  observed: RunObservations,
  finding: MakeFinding,
): Finding[] {
  const { outcomes, mayBeDeleted, because } = decideJobOutcomes(shape, { nodeLost: countOutages(shape, observed) > 0 });
  const [end, ...others] = ends;
  const expected = `${outcomes.join(" or ")} (${because})`;
  if (end === undefined) return mayBeDeleted ? [] : [finding("every job ends", expected, `it has not ended: ${state}`)];
  if (others.length > 0)
    return [finding("a job ends exactly once", `${end} and nothing after it`, ends.join(", then "))];
  if (outcomes.some((outcome) => outcome === end)) return [];
  return [finding("the outcome is allowed", expected, `${end}: ${state}`)];
}

/** Each pod of a member must end before the next one is placed. */
function judgeTwins(pods: readonly PodSeen[]): Finding[] {
  const placed = pods.filter(({ boundPlace }) => boundPlace !== undefined);
  return [...Map.groupBy(placed, ({ component }) => component)].flatMap(([component, lives]) => {
    const inOrder = lives.toSorted((a, b) => (a.boundPlace ?? 0) - (b.boundPlace ?? 0));
    return inOrder.slice(1).flatMap((pod, index): Finding[] => {
      const before = inOrder[index];
      if (before === undefined || (before.endPlace ?? Infinity) < (pod.boundPlace ?? 0)) return [];
      return [
        {
          work: pod.work,
          rule: "no member of a job runs twice concurrently",
          expected: `${before.uid} of ${component} has ended`,
          found: `${pod.uid} was placed while it ran`,
        },
      ];
    });
  });
}

/** After this time, the job-controller gives a member another machine if foreign pods leave no room for its pod. */
export const CROWDED_AFTER_MS = 8000;

/**
 * Every pod is the first of its member, or has a valid predecessor: a restart within the budget, an outage of a machine, a deletion, a pause by a user, a
 * preemption, or a lack of room on its machine.
 */
function judgeCreations(
  shape: JobShape,
  pods: readonly PodSeen[],
  observed: RunObservations,
  finding: MakeFinding,
): Finding[] {
  const members = countMembers(shape).length;
  const attempts = shape.restartsAll ? 1 + shape.backoffLimit : 1;
  const restarts = shape.restartsAll ? 0 : shape.backoffLimit;
  const pauses = shape.userAction?.kind === "suspend" ? 1 : 0;
  const outages = countOutages(shape, observed);
  const preemptions = countPreemptions(shape, observed);
  const deletions = observed.podDeletions.filter(({ work }) => work === shape.name).length;
  const crowded = pods.filter(isCrowdedOut).length;
  // The loss of a machine may restart the whole gang, which then releases its machines and requests new ones.
  const maxPods = members * (attempts + pauses + outages + preemptions) + restarts + deletions + crowded;
  if (pods.length <= maxPods) return [];
  const parts = `${members} members, ${attempts} attempts, ${restarts} restarts, ${pauses} pauses, ${outages} outages, ${preemptions} preemptions, ${deletions} deletions, ${crowded} without room`;
  const counts = [...Map.groupBy(pods, ({ component }) => component)].map(([each, made]) => `${made.length} ${each}`);
  return [
    finding("no more pods are created than the budgets allow", `at most ${maxPods} (${parts})`, counts.join(", ")),
  ];
}

/** Whether the pod of a part was never placed, for so long that its member gets another machine. */
function isCrowdedOut({ isShared, boundPlace, firstSeenMs, goneMs }: PodSeen): boolean {
  return isShared === true && boundPlace === undefined && (goneMs ?? 0) - firstSeenMs >= CROWDED_AFTER_MS;
}

/** Counts the repeated grants of the job's reservation, which keeps its id when it is preempted and waits again. */
function countPreemptions({ name }: JobShape, { ledger }: RunObservations): number {
  const grants = ledger.flatMap((entry) =>
    entry.kind === "granted" && entry.work === name ? [entry.reservation] : [],
  );
  return grants.length - new Set(grants).size;
}

/** Number of outages of its machines before its end. */
function countOutages({ name }: JobShape, { jobs, ledger, outages }: RunObservations): number {
  const nodes = groupNodesByWork(ledger).get(name) ?? new Set<string>();
  const { createdAtMs = 0, endedAtMs, goneMs } = jobs.get(name) ?? {};
  const endMs = endedAtMs ?? goneMs ?? Infinity;
  return outages.filter(
    ({ node, fromMs, toMs }) => nodes.has(node) && fromMs <= endMs && toMs + LOST_AFTER_MS >= createdAtMs,
  ).length;
}
