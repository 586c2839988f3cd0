import type { View } from "@muster/store";

/** The names of all sessions that this replica knows, for lists. */
export type SessionNames = {
  /** Call after a session was stored: lists contain it from now on, even before the index has received it. */
  add(name: string, revision: number): void;
  /** Names of all sessions after this one, in order. */
  listAfter(name: string): readonly string[];
};

/** Lists the sessions of the index, and those that this replica has just stored. Without the latter, a list right after a submission may lack its session. */
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
