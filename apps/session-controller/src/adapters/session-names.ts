import type { View } from "@muster/store";

/** The names of all sessions that this replica knows, for lists. */
export type SessionNames = {
  /** Adds a stored session: lists contain it from now on, even before the index has received it. */
  add(name: string, revision: number): void;
  /** Lists the names of all sessions after this name, in order. */
  listAfter(name: string): readonly string[];
};

/** Lists the sessions of the index and the sessions that this replica has just stored. Otherwise a list right after a submission might lack its session. */
export function makeSessionNames(index: Pick<View<unknown>, "entries" | "revision" | "onChange">): SessionNames {
  const unseen = new Set<string>();
  index.onChange((name) => unseen.delete(name));
  return {
    add: (name, revision) => {
      if (index.revision() < revision) unseen.add(name);
    },
    listAfter: (after) => {
      const names = index.entries().flatMap(({ key }) => (key > after ? [key] : []));
      const added = [...unseen].filter((name) => name > after);
      return added.length === 0 ? names : [...new Set([...names, ...added])].sort();
    },
  };
}
