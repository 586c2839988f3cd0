import type { TestJob } from "../job-world.ts";

type Fields = Readonly<Record<string, unknown>>;

/** Builds a replica type whose pods follow the flags of `simulate`. */
export function buildReplicaType(flags: readonly string[], more: Fields = {}): Fields {
  return {
    replicas: 1,
    pool: "plenty",
    template: { spec: { containers: [{ name: "main", image: "none", command: ["simulate", ...flags] }] } },
    ...more,
  };
}

export function makeSimulatedJob(name: string, replicaSpecs: Fields, more: Fields = {}): TestJob {
  return { apiVersion: "muster.dev/v1", kind: "Job", metadata: { name }, spec: { replicaSpecs, ...more } };
}

/** Returns the types of the True conditions, in the order of their last change. */
export function listTrueConditions(job: TestJob): readonly string[] {
  return job.status?.conditions?.filter(({ status }) => status === "True").map(({ type }) => type) ?? [];
}

export function findReason(job: TestJob, type: string): string | undefined {
  return job.status?.conditions?.find((condition) => condition.type === type)?.reason;
}
