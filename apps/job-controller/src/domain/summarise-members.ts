import type { Requests } from "@muster/resources";
import { buildComponentName } from "./build-units.ts";
import { describeMember } from "./describe-end.ts";
import type { JobSpec } from "./job.ts";
import { canRun } from "./job-pods.ts";
import type { JobStatus } from "./job-status.ts";
import type { PodFact, UnitSeen } from "./snapshot.ts";

/** The state of one member of a gang. */
export type MemberSummary = {
  readonly component: string;
  readonly pool: string;
  readonly node: string;
  /** The part of a machine that the member has or waits for; undefined for a whole machine. */
  readonly shared: Requests | undefined;
  /** Empty if the member has no pod. */
  readonly pod: string;
  /**
   * PENDING: the member has no pod yet. COMPLETED: the member succeeded, and its pod is gone. STOPPED: the job is over, and the pod is gone without a failure.
   * Otherwise the last known phase of the pod.
   */
  readonly state: "PENDING" | "COMPLETED" | "STOPPED" | Uppercase<PodFact["phase"]>;
  readonly message: string;
};

/** Summarises the members in the order of the spec. */
export function summariseMembers(
  spec: JobSpec,
  status: JobStatus,
  pods: readonly PodFact[],
  units: readonly UnitSeen[],
): readonly MemberSummary[] {
  const byComponent = new Map(pods.map((pod) => [pod.component, pod]));
  const granted = units.filter((unit) => unit.state === "granted");
  const nodes = new Map(granted.flatMap((unit) => [...unit.nodes]));
  const shares = new Map(
    granted.flatMap((unit) => [...unit.nodes.keys()].map((each) => [each, unit.shares?.get(each)])),
  );
  return spec.replicas.flatMap(({ type, replicas, pool, shared: requested, mainContainer }) => {
    const completed = status.replicas.find((each) => each.type === type)?.completedIndexes ?? [];
    return Array.from({ length: replicas }, (_, index): MemberSummary => {
      const component = buildComponentName({ type, index });
      const pod = byComponent.get(component);
      const node = pod?.node ?? nodes.get(component) ?? "";
      const shared = nodes.has(component) ? shares.get(component) : requested;
      if (pod !== undefined) {
        return {
          component,
          pool,
          node,
          shared,
          pod: pod.name,
          // The status is newer than the cached pod.
          state:
            completed.includes(index) && canRun(pod) && pod.attempt === status.attempt
              ? "SUCCEEDED"
              : upperCase(pod.phase),
          message: describeMember(pod, mainContainer),
        };
      }
      const gone = { component, pool, node, shared, pod: "", message: "" };
      if (completed.includes(index)) return { ...gone, state: "COMPLETED" };
      if (status.completionMs === undefined) return { ...gone, state: "PENDING" };
      const failed = status.failedMembers.find((each) => each.type === type && each.indexes.includes(index));
      return failed === undefined
        ? { ...gone, state: "STOPPED" }
        : { ...gone, state: "FAILED", message: failed.message };
    });
  });
}

function upperCase<Text extends string>(text: Text): Uppercase<Text> {
  // The type of `toUpperCase` is only string.
  return text.toUpperCase() as Uppercase<Text>;
}
