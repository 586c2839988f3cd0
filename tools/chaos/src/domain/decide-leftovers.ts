import type { WorkKind } from "./observed.ts";
import type { JobShape } from "./plan-jobs.ts";

export type PresentWork = {
  readonly name: string;
  readonly kind: WorkKind;
  readonly work: string;
  readonly phase: string;
};

/** The pods that should not exist at the end of the run: all pods of sessions, and the pods of jobs that their policies remove. */
export function listLeftoverPods(
  present: readonly PresentWork[],
  jobs: readonly JobShape[],
  exists: (job: string) => boolean,
): string[] {
  const shapes = new Map(jobs.map((shape) => [shape.name, shape]));
  return present
    .filter(({ kind, work, phase }) => {
      const policy = shapes.get(work)?.cleanPodPolicy;
      const mayStay =
        kind === "job" && exists(work) && policy !== "All" && (phase === "Succeeded" || phase === "Failed");
      return !mayStay;
    })
    .map(({ name }) => name);
}

/** The jobs that exist although their time to live is over or their user deleted them. */
export function listLeftoverJobs(jobs: readonly JobShape[], exists: (job: string) => boolean): string[] {
  return jobs
    .filter(({ name, ttlS, userAction }) => (ttlS !== undefined || userAction?.kind === "delete") && exists(name))
    .map(({ name }) => name);
}

/** The services that should not exist: all except those of jobs with policy None. */
export function listLeftoverServices(
  present: readonly { readonly name: string; readonly work: string }[],
  jobs: readonly JobShape[],
  exists: (job: string) => boolean,
): string[] {
  const kept = new Set(
    jobs.filter(({ name, cleanPodPolicy }) => cleanPodPolicy === "None" && exists(name)).map(({ name }) => name),
  );
  return present.filter(({ work }) => !kept.has(work)).map(({ name }) => `service ${name}`);
}
