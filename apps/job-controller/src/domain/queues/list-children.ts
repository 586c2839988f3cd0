import type { QueueRow } from "./queue-row.ts";

type Placed = Pick<QueueRow, "name" | "isDeleting"> & { readonly record: Pick<QueueRow["record"], "parent"> };

/**
 * Lists the queues below each queue, by its name. A queue that is below itself has no queue below it that is being deleted, because the queues of a cycle would
 * otherwise wait for each other forever.
 */
export function listChildren(rows: ReadonlyMap<string, Placed>): ReadonlyMap<string, readonly string[]> {
  const children = new Map<string, string[]>();
  for (const { name, isDeleting, record } of rows.values()) {
    const { parent } = record;
    if (parent === "" || (isDeleting && isAbove(rows, name, parent))) continue;
    const known = children.get(parent);
    if (known === undefined) children.set(parent, [name]);
    else known.push(name);
  }
  return children;
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
