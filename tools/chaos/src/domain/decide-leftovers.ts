import type { WorkKind } from "./observed.ts";
import type { JobShape } from "./plan-jobs.ts";

export type Present = {
  readonly name: string;
  readonly kind: WorkKind;
  readonly work: string;
  readonly phase: string;
};

/** Of what is there after the end of everything, what should not be: all of sessions, and of jobs what their policies take away. */
export function podsToGo(
  present: readonly Present[],
  jobs: readonly JobShape[],
  isThere: (job: string) => boolean,
): string[] {
  const shapes = new Map(jobs.map((shape) => [shape.name, shape]));
  return present
    .filter(({ kind, work, phase }) => {
      const policy = shapes.get(work)?.cleanPodPolicy;
      const mayStay =
        kind === "job" && isThere(work) && policy !== "All" && (phase === "Succeeded" || phase === "Failed");
      return !mayStay;
    })
    .map(({ name }) => name);
}

/** Jobs that are there though they have a time that is over, or a user who deleted them. */
export function jobsToGo(jobs: readonly JobShape[], isThere: (job: string) => boolean): string[] {
  return jobs
    .filter(({ name, ttlS, deed }) => (ttlS !== undefined || deed?.do === "delete") && isThere(name))
    .map(({ name }) => name);
}

/** The same for services, of jobs of any other policy than None. */
export function servicesToGo(
  present: readonly { readonly name: string; readonly work: string }[],
  jobs: readonly JobShape[],
  isThere: (job: string) => boolean,
): string[] {
  const kept = new Set(
    jobs.filter(({ name, cleanPodPolicy }) => cleanPodPolicy === "None" && isThere(name)).map(({ name }) => name),
  );
  return present.filter(({ work }) => !kept.has(work)).map(({ name }) => `service ${name}`);
}
