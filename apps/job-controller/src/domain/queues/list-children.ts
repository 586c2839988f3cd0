import type { QueueRow } from "./queue-row.ts";

type Placed = Pick<QueueRow, "name" | "isDeleting"> & { readonly record: Pick<QueueRow["record"], "parent"> };

/**
 * Lists the queues below each queue, by its name. In a cycle, queues that are being deleted are omitted, because the queues of the cycle would otherwise wait
 * for each other forever.
 */
export function listChildren(rows: ReadonlyMap<string, Placed>): ReadonlyMap<string, readonly string[]> {
  const below = [...rows.values()].filter(
    ({ name, isDeleting, record: { parent } }) => parent !== "" && !(isDeleting && isAbove(rows, name, parent)),
  );
  const byParent = Map.groupBy(below, ({ record }) => record.parent);
  return new Map([...byParent].map(([parent, children]) => [parent, children.map(({ name }) => name)]));
}

/** Whether `upper` is above the queue, at any distance. */
function isAbove(rows: ReadonlyMap<string, Placed>, upper: string, name: string): boolean {
  const met = new Set<string>();
  for (let at = rows.get(name); at !== undefined && !met.has(at.name); at = rows.get(at.record.parent)) {
    if (at.record.parent === upper) return true;
    met.add(at.name);
  }
  return false;
}
