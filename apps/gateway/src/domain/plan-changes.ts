/** One difference between two states of a list. */
export type ItemChange = {
  readonly kind: "added" | "modified" | "deleted";
  readonly key: string;
  /** The item as text; for a deleted item, its last state. */
  readonly text: string;
};

/** Items by their keys, as text. */
export type Items = ReadonlyMap<string, string>;

/** Plans the changes from one state to the next: deletions first, then the other changes in the order of the next state. */
export function planChanges(before: Items, after: Items): readonly ItemChange[] {
  const deleted = [...before].filter(([key]) => !after.has(key));
  const changed = [...after].filter(([key, text]) => before.get(key) !== text);
  return [
    ...deleted.map(([key, text]): ItemChange => ({ kind: "deleted", key, text })),
    ...changed.map(([key, text]): ItemChange => ({ kind: before.has(key) ? "modified" : "added", key, text })),
  ];
}
