import type { KubeConfig, V1ContainerStatus, V1Pod } from "@kubernetes/client-node";
import { throwFault } from "@muster/faults";
import { followLogs, openPodLog, readLogRange, type FollowedLog, type LogFollowers } from "@muster/kube";
import { labels } from "@muster/proto";
import type { LogDeps, ContainerRun } from "../read-log.ts";
import type { JobRow } from "./read-job.ts";
import { toPodFact } from "./read-pod.ts";

/** Reads the logs of pods, each once for all readers that poll it. */
export type MemberLogs = Disposable & {
  /** The dependencies of `readLog` for one member. Throws FaultError if the container does not exist. */
  of(member: Member, signals: Pick<LogDeps, "isFinished" | "changed">): LogDeps;
};

type Member = {
  readonly job: JobRow;
  readonly component: string;
  /** An empty name selects the main container. */
  readonly container: string;
  /** Returns the current pods of the job. */
  readonly pods: () => readonly V1Pod[];
};

/** Each follower of a job has a stream for each member; the stream of a follower that stops reading is closed after `idleMs`. */
const FOLLOW_LIMITS = { maxStreams: 512, idleMs: 30_000 };

export function openMemberLogs(kube: KubeConfig): MemberLogs {
  const followers = followLogs(
    ({ namespace = "", pod, container }, end) => openPodLog(kube, { namespace, pod, container }, { follow: true }, end),
    FOLLOW_LIMITS,
  );
  return {
    of: (member, signals) => memberLog(kube, followers, member, signals),
    [Symbol.dispose]: () => followers[Symbol.dispose](),
  };
}

function memberLog(
  kube: KubeConfig,
  followers: LogFollowers,
  { job, component, container: wanted, pods }: Member,
  signals: Pick<LogDeps, "isFinished" | "changed">,
): LogDeps {
  const spec = "problems" in job.spec ? [] : job.spec.replicas;
  const main = spec.find(({ type }) => type === component.replace(/-\d+$/, ""))?.mainContainer ?? "";
  const container = wanted === "" ? main : wanted;
  const { namespace } = job.metadata;
  const logOf = ({ id, pod }: ContainerRun): FollowedLog => ({ namespace, pod, container, run: id });
  return {
    ...signals,
    now: Date.now,
    newest: () => newestRun(pods(), component, container),
    kept: (id, offset) => {
      const run = { id, pod: id.split("/", 1)[0] ?? "", isOver: true };
      return followers.keeps(logOf(run), offset) ? run : undefined;
    },
    read: ({ pod }, range, signal) => readLogRange(kube, { namespace, pod, container }, range, signal),
    follow: (run, range, waitMs, signal) => followers.read(logOf(run), range, waitMs, signal),
    refuseAbsent: () => throwFault({ code: "not_found", kind: "log", id: `${job.metadata.name}/${component}` }),
  };
}

/**
 * Finds the newest run. A member that has not started has no log yet, and the log of a deleted pod is gone. NOTE: a container restarts shortly before the
 * status of its pod shows it. A log that is opened in between counts as the previous run, and is returned twice.
 */
function newestRun(pods: readonly V1Pod[], component: string, container: string): ContainerRun | undefined {
  const [newest] = pods
    .filter(({ metadata }) => metadata?.labels?.[labels.component] === component)
    .map((pod) => ({ pod, fact: toPodFact(pod) }))
    .filter(({ fact }) => fact.phase !== "Pending")
    .sort((a, b) => b.fact.attempt - a.fact.attempt || b.fact.createdMs - a.fact.createdMs);
  if (newest === undefined) return undefined;
  const { name, uid, phase } = newest.fact;
  const status = findContainer(newest.pod, container);
  const isOver = phase === "Succeeded" || phase === "Failed" || status?.state?.terminated !== undefined;
  return { id: `${name}/${uid}/${status?.restartCount ?? 0}`, pod: name, isOver };
}

function findContainer({ status }: V1Pod, container: string): V1ContainerStatus | undefined {
  const all = [...(status?.containerStatuses ?? []), ...(status?.initContainerStatuses ?? [])];
  const found = all.find(({ name }) => name === container);
  if (found === undefined && all.length > 0) {
    const reason = `"${container}" is no container of the pod, which has ${all.map(({ name }) => name).join(", ")}`;
    return throwFault({ code: "invalid_request", field: "container", reason });
  }
  return found;
}
