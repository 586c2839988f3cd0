import { API_GROUP, checkLabelValue } from "@muster/names";
import type { PodTemplate } from "./job.ts";
import type { KindDefaults } from "./kind.ts";
import type { Notes } from "./read-fields.ts";

/** On a job: the pool of every replica type that does not name one itself. */
export const POOL_ANNOTATION = `${API_GROUP}/pool`;

type PoolSources = {
  /** Path of the replica type. */
  readonly path: string;
  /** Its own `pool`; kinds of other projects have no such field. */
  readonly field: { readonly known: boolean; readonly pool: string | undefined };
  readonly template: PodTemplate | undefined;
  readonly annotation: string | undefined;
};

/** The pool of a replica type: the most specific source wins. Undefined after a problem was noted. */
export function choosePool(sources: PoolSources, defaults: KindDefaults, notes: Notes): string | undefined {
  const { path, field, template, annotation } = sources;
  const selected = template?.spec.nodeSelector?.[defaults.poolLabel];
  const selector = `template.spec.nodeSelector["${defaults.poolLabel}"]`;
  if (field.pool !== undefined && selected !== undefined && field.pool !== selected) {
    const reason = `is "${selected}", and ${path}.pool is "${field.pool}": no machine is in both`;
    notes.problems.push({ field: `${path}.${selector}`, reason });
    return undefined;
  }
  const pool = field.pool ?? selected ?? annotation ?? defaults.pool;
  if (pool === undefined || pool === "") {
    const own = field.known ? `${path}.pool, ` : "";
    const reason = `no pool of machines: name one in ${own}${selector}, the annotation ${POOL_ANNOTATION} of the job, or the controller's default pool`;
    notes.problems.push({ field: path, reason });
    return undefined;
  }
  const fault = checkLabelValue(path, pool);
  if (fault === undefined) return pool;
  if (fault.code === "invalid_request") notes.problems.push({ field: path, reason: `pool ${fault.reason}` });
  return undefined;
}
