import { API_GROUP, checkLabelValue } from "@muster/names";
import { MAX_ACCEPTED_POOLS } from "@muster/resources";
import type { PodTemplate } from "./job.ts";
import type { KindDefaults } from "./kind.ts";
import type { ReadNotes } from "./read-fields.ts";
import type { ReplicaDraft } from "./read-manifest.ts";

/** Annotation of a job: the pool of every replica type that names none itself, or several in order of preference: `a100, h100`. */
export const POOL_ANNOTATION = `${API_GROUP}/pool`;

type PoolSources = {
  /** The path of the replica type. */
  readonly path: string;
  /** The type's own `pool`; kinds of other projects have no such field. */
  readonly field: { readonly known: boolean; readonly pool: string | undefined };
  readonly template: PodTemplate | undefined;
  readonly annotation: string | undefined;
};

type Pools = Pick<ReplicaDraft, "pool" | "otherPools">;

const NONE: Pools = { pool: undefined };

/** Chooses the pools of a replica type: the most specific source takes precedence. Without a pool, a problem was noted. */
export function choosePool(sources: PoolSources, defaults: KindDefaults, notes: ReadNotes): Pools {
  const { path, field, template, annotation } = sources;
  const selected = template?.spec.nodeSelector?.[defaults.poolLabel];
  const selector = `template.spec.nodeSelector["${defaults.poolLabel}"]`;
  if (field.pool !== undefined && selected !== undefined && field.pool !== selected) {
    const reason = `is "${selected}", and ${path}.pool is "${field.pool}": no machine is in both`;
    notes.problems.push({ field: `${path}.${selector}`, reason });
    return NONE;
  }
  const own = field.pool ?? selected;
  if (own === undefined && annotation?.includes(",") === true) return readPools(annotation, notes);
  const pool = own ?? annotation ?? defaults.pool;
  if (pool === undefined || pool === "") {
    const fieldName = field.known ? `${path}.pool, ` : "";
    const reason = `no pool of machines: name one in ${fieldName}${selector}, the annotation ${POOL_ANNOTATION} of the job, or the controller's default pool`;
    notes.problems.push({ field: path, reason });
    return NONE;
  }
  const fault = checkLabelValue(path, pool);
  if (fault === undefined) return { pool };
  if (fault.code === "invalid_request") notes.problems.push({ field: path, reason: `pool ${fault.reason}` });
  return NONE;
}

function readPools(annotation: string, notes: ReadNotes): Pools {
  const field = `metadata.annotations["${POOL_ANNOTATION}"]`;
  const pools = annotation.split(",").map((pool) => pool.trim());
  const [pool = "", ...otherPools] = pools;
  const reason = findProblem(field, pools);
  if (reason === undefined) return { pool, otherPools };
  notes.problems.push({ field, reason });
  return NONE;
}

function findProblem(field: string, pools: readonly string[]): string | undefined {
  if (pools.length > MAX_ACCEPTED_POOLS) return `names ${pools.length} pools; ${MAX_ACCEPTED_POOLS} at most`;
  if (pools.includes("")) return `is "${pools.join(", ")}": the name of a pool is missing beside a comma`;
  const repeated = pools.find((pool, index) => pools.indexOf(pool) < index);
  if (repeated !== undefined) return `names the pool "${repeated}" twice`;
  for (const pool of pools) {
    const fault = checkLabelValue(field, pool);
    if (fault?.code === "invalid_request") return `pool ${fault.reason}`;
  }
  return undefined;
}
