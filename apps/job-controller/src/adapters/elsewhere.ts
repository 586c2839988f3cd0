import { listPages, type KubeCalls } from "@muster/kube";
import { planElsewhere, type ElsewhereMemory, type JobElsewhere } from "../domain/plan-elsewhere.ts";
import { OUR_NAME } from "../domain/read-run-policy.ts";
import { isRightMissing } from "../members/find-resource.ts";
import type { KindRuntime } from "./kind-runtime.ts";
import type { JobResource } from "./read-job.ts";

/** Jobs in namespaces that nothing serves: kubectl creates them, and they would wait without a word. */
export type Elsewhere = {
  /** Lists the jobs of all other namespaces; where this replica may report, each unserved one gets an event. Rejects with the error of the API server. */
  look(mayReport: boolean): Promise<void>;
  /** As the last look found them. */
  unserved(): readonly JobElsewhere[];
  /** There is no right to list jobs of some kind in other namespaces. */
  isRefused(): boolean;
  /** There are more jobs than a look reads, so that some unserved ones may be missing. */
  isCut(): boolean;
};

export type ElsewhereDeps = {
  readonly calls: Pick<KubeCalls, "list">;
  readonly namespace: string;
  readonly runtimes: () => readonly Pick<KindRuntime, "kind" | "resource">[];
  readonly report: (job: JobElsewhere) => void;
  readonly now: () => number;
};

/** Jobs of each kind that a look reads, those of other controllers among them. */
const READ_MAX = 20_000;
/** Jobs of each kind without a controller that a look keeps. */
const UNTENDED_MAX = 1000;
const PAGE = 500;

export function openElsewhere(deps: ElsewhereDeps): Elsewhere {
  let memory: ElsewhereMemory = new Map();
  let unserved: readonly JobElsewhere[] = [];
  let looked = { isRefused: false, isCut: false };
  return {
    look: async (mayReport) => {
      const kinds = [];
      for (const runtime of deps.runtimes()) kinds.push(await listUntended(deps, runtime));
      const untended = kinds.flatMap(({ jobs }) => jobs);
      const plan = planElsewhere(untended, memory, { nowMs: deps.now(), mayReport });
      ({ memory, unserved } = plan);
      looked = {
        isRefused: kinds.some(({ isRefused }) => isRefused),
        isCut: kinds.some(({ isCut }) => isCut),
      };
      plan.report.forEach(deps.report);
    },
    unserved: () => unserved,
    isRefused: () => looked.isRefused,
    isCut: () => looked.isCut,
  };
}

type Untended = { readonly jobs: readonly JobElsewhere[]; readonly isRefused: boolean; readonly isCut: boolean };

async function listUntended(
  { calls, namespace }: ElsewhereDeps,
  { kind, resource: { apiVersion, plural } }: Pick<KindRuntime, "kind" | "resource">,
): Promise<Untended> {
  const query = { fieldSelector: `metadata.namespace!=${namespace}` };
  const jobs: JobElsewhere[] = [];
  let read = 0;
  try {
    for await (const page of listPages<JobResource>(calls, { apiVersion, plural }, { query }, PAGE)) {
      for (const { metadata, spec, status } of page) {
        const { namespace: of, name, uid } = metadata;
        if (!isTended(spec, status)) jobs.push({ apiVersion, kind: kind.kind, namespace: of, name, uid });
      }
      read += page.length;
      if (read >= READ_MAX || jobs.length >= UNTENDED_MAX) return { jobs, isRefused: false, isCut: true };
    }
  } catch (error) {
    if (!isRightMissing(error)) throw error;
    return { jobs: [], isRefused: true, isCut: false };
  }
  return { jobs, isRefused: false, isCut: false };
}

/** Some controller has written a condition, or the job names another manager. */
function isTended(spec: unknown, status: unknown): boolean {
  const managedBy = fieldOf(spec, "managedBy") ?? fieldOf(fieldOf(spec, "runPolicy"), "managedBy");
  const conditions = fieldOf(status, "conditions");
  const isManaged = typeof managedBy === "string" && managedBy !== "" && managedBy !== OUR_NAME;
  return isManaged || (Array.isArray(conditions) && conditions.length > 0);
}

function fieldOf(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null ? (value as Readonly<Record<string, unknown>>)[name] : undefined;
}
