import type { V1Pod, V1PodStatus } from "@kubernetes/client-node";
import { toKubeFault } from "@muster/kube";

export type ReporterDeps = {
  /** Reads the pod from the API server, not from a cache; undefined if it is gone. */
  readonly readPod: () => Promise<V1Pod | undefined>;
  readonly saveStatus: (pod: V1Pod) => Promise<V1Pod>;
};

/** Writes the status that `build` returns for the pod, unless the API server already has it. */
export type StatusReporter = (cached: V1Pod, build: (pod: V1Pod) => V1PodStatus) => Promise<void>;

const MAX_CONFLICTS = 5;

/** Creates a reporter for one pod. It remembers its own writes, so a stale cache causes neither conflicts nor repeated writes. */
export function makeStatusReporter(deps: ReporterDeps): StatusReporter {
  let written: V1Pod | undefined;
  return async (cached, build) => {
    for (let conflicts = 0; ; conflicts++) {
      const current = chooseNewer(cached, written);
      const status = build(current);
      if (includes(current.status, status)) return;
      try {
        written = await deps.saveStatus({ ...current, status });
        return;
      } catch (error) {
        const code = toKubeFault(error)?.code;
        if (code === "not_found") return;
        if (code !== "conflict" || conflicts >= MAX_CONFLICTS) throw error;
        written = await deps.readPod();
        if (written === undefined) return;
      }
    }
  };
}

/** Resource versions of one resource are numbers that grow. */
function chooseNewer(a: V1Pod, b: V1Pod | undefined): V1Pod {
  if (b === undefined) return a;
  return BigInt(a.metadata?.resourceVersion ?? 0) >= BigInt(b.metadata?.resourceVersion ?? 0) ? a : b;
}

/** Returns whether `actual` contains everything in `wanted`. Times are texts or Dates, compared in whole seconds as the API server keeps them. */
export function includes(actual: unknown, wanted: unknown): boolean {
  if (wanted === undefined) return true;
  if (Array.isArray(wanted)) {
    if (wanted.length === 0) return actual === undefined || (Array.isArray(actual) && actual.length === 0);
    return (
      Array.isArray(actual) &&
      actual.length === wanted.length &&
      wanted.every((each, index) => includes(actual[index], each))
    );
  }
  if (wanted instanceof Date) return seconds(actual) === seconds(wanted);
  if (typeof wanted === "object" && wanted !== null) {
    const known = typeof actual === "object" && actual !== null ? new Map(Object.entries(actual)) : new Map();
    return Object.entries(wanted).every(([key, value]) => includes(known.get(key), value));
  }
  if (actual instanceof Date) return seconds(actual) === seconds(wanted);
  return actual === wanted;
}

function seconds(time: unknown): number | undefined {
  if (!(time instanceof Date) && typeof time !== "string") return undefined;
  return Math.floor(new Date(time).getTime() / 1000);
}
