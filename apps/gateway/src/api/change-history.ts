import { planChanges, type ItemChange, type Items } from "../domain/plan-changes.ts";

export type NumberedChange = ItemChange & { readonly number: number };

/** The state of one list, and its latest changes, which are numbered from 1. */
export type ChangeHistory = {
  readonly items: Items;
  /** Number of the newest change; 0: none yet. */
  readonly last: number;
  /** Replaces the state; returns how many changes lead to it. */
  advance(items: Items): number;
  /** The changes after this one; undefined: some of them are forgotten, or it is of another history. */
  after(number: number): readonly NumberedChange[] | undefined;
};

export type HistoryLimits = { readonly maxChanges: number; readonly maxCharacters: number };

/** Forgets the oldest changes beyond either limit. */
export function changeHistory({ maxChanges, maxCharacters }: HistoryLimits): ChangeHistory {
  let items: Items = new Map();
  let changes: NumberedChange[] = [];
  let last = 0;
  return {
    get items() {
      return items;
    },
    get last() {
      return last;
    },
    advance: (next) => {
      const found = planChanges(items, next);
      items = next;
      changes = newest(
        [...changes, ...found.map((change) => ({ ...change, number: ++last }))],
        maxChanges,
        maxCharacters,
      );
      return found.length;
    },
    after: (number) => {
      if (number > last) return undefined;
      const first = last - changes.length;
      return number < first ? undefined : changes.slice(number - first);
    },
  };
}

function newest(changes: NumberedChange[], maxChanges: number, maxCharacters: number): NumberedChange[] {
  let characters = 0;
  let start = changes.length;
  while (start > 0 && changes.length - start < maxChanges) {
    characters += changes[start - 1]?.text.length ?? 0;
    if (characters > maxCharacters) break;
    start -= 1;
  }
  return changes.slice(start);
}
