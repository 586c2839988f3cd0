import { isForbidden, listPages, type KubeCalls } from "@muster/kube";
import { planUnservedEvents, type UnservedMemory, type UnservedJob } from "../domain/plan-unserved-events.ts";
import { MANAGER_NAME } from "../domain/read-run-policy.ts";
import type { KindRuntime } from "./kind-runtime.ts";
import type { JobResource } from "./read-job.ts";

/** Jobs in namespaces that no controller serves: kubectl creates them, and they would wait without an explanation. */
export type UnservedJobs = {
  /** Lists the jobs of all other namespaces; if this replica may report, each unserved one gets an event. Rejects with the error of the API server. */
  scan(mayReport: boolean): Promise<void>;
  /** Returns the jobs that the last scan found. */
  unserved(): readonly UnservedJob[];
  /** Whether the right to list jobs of some kind in other namespaces is missing. */
  isRefused(): boolean;
  /** Whether a scan reached its limit, so that some unserved jobs may be missing. */
  isCut(): boolean;
};

type ElsewhereDeps = {
  readonly calls: Pick<KubeCalls, "list">;
  readonly namespace: string;
  /** Whether jobs of the namespace run here; undefined if it is not known yet. */
  readonly servesNamespace: (namespace: string) => boolean | undefined;
  readonly runtimes: () => readonly Pick<KindRuntime, "kind" | "resource">[];
  readonly report: (job: UnservedJob) => void;
  readonly now: () => number;
};

/** Limits the jobs of each kind that a scan reads, including those of other controllers. */
const MAX_JOBS_READ = 20_000;
/** Limits the jobs of each kind without a controller that a scan keeps. */
const MAX_UNCONTROLLED = 1000;
const PAGE = 500;

export function openUnservedJobs(deps: ElsewhereDeps): UnservedJobs {
  let memory: UnservedMemory = new Map();
  let unserved: readonly UnservedJob[] = [];
  let lastScan = { isRefused: false, isCut: false };
  return {
    scan: async (mayReport) => {
      const kinds = [];
      for (const runtime of deps.runtimes()) kinds.push(await listUncontrolled(deps, runtime));
      const uncontrolled = kinds.flatMap(({ jobs }) => jobs);
      const plan = planUnservedEvents(uncontrolled, memory, { nowMs: deps.now(), mayReport });
      ({ memory, unserved } = plan);
      lastScan = {
        isRefused: kinds.some(({ isRefused }) => isRefused),
        isCut: kinds.some(({ isCut }) => isCut),
      };
      plan.report.forEach(deps.report);
    },
    unserved: () => unserved,
    isRefused: () => lastScan.isRefused,
    isCut: () => lastScan.isCut,
  };
}

type UncontrolledJobs = {
  readonly jobs: readonly UnservedJob[];
  readonly isRefused: boolean;
  readonly isCut: boolean;
};

async function listUncontrolled(
  { calls, namespace, servesNamespace }: ElsewhereDeps,
  { kind, resource: { apiVersion, plural } }: Pick<KindRuntime, "kind" | "resource">,
): Promise<UncontrolledJobs> {
  const query = { fieldSelector: `metadata.namespace!=${namespace}` };
  const jobs: UnservedJob[] = [];
  let read = 0;
  try {
    for await (const page of listPages<JobResource>(calls, { apiVersion, plural }, { query }, PAGE)) {
      for (const { metadata, spec, status } of page) {
        const { namespace: of, name, uid } = metadata;
        if (servesNamespace(of) !== false) continue;
        if (!hasController(spec, status)) jobs.push({ apiVersion, kind: kind.kind, namespace: of, name, uid });
      }
      read += page.length;
      if (read >= MAX_JOBS_READ || jobs.length >= MAX_UNCONTROLLED) return { jobs, isRefused: false, isCut: true };
    }
  } catch (error) {
    if (!isForbidden(error)) throw error;
    return { jobs: [], isRefused: true, isCut: false };
  }
  return { jobs, isRefused: false, isCut: false };
}

/** Whether a controller has written a condition, or the job names another manager. */
function hasController(spec: unknown, status: unknown): boolean {
  const managedBy = findField(spec, "managedBy") ?? findField(findField(spec, "runPolicy"), "managedBy");
  const conditions = findField(status, "conditions");
  const isManaged = typeof managedBy === "string" && managedBy !== "" && managedBy !== MANAGER_NAME;
  return isManaged || (Array.isArray(conditions) && conditions.length > 0);
}

function findField(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null ? (value as Readonly<Record<string, unknown>>)[name] : undefined;
}
