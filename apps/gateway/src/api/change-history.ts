import { planChanges, type ItemChange, type Items } from "../domain/plan-changes.ts";

export type NumberedChange = ItemChange & { readonly number: number };

/** The state of one list, and its latest changes, numbered from 1. The first state is not a change, because every reader has it. */
export type ChangeHistory = {
  readonly items: Items;
  /** The number of the newest change; 0 before the first. */
  readonly last: number;
  /** Number of characters in the kept changes. */
  readonly characters: number;
  /** Replaces the state; returns the number of changes. */
  advance(items: Items): number;
  /** Returns the changes after this number; undefined if some were dropped, or the number belongs to another history. */
  after(number: number): readonly NumberedChange[] | undefined;
};

export type HistoryLimits = { readonly maxChanges: number; readonly maxCharacters: number };

/** Creates a history, which drops the oldest changes beyond either limit. */
export function changeHistory({ maxChanges, maxCharacters }: HistoryLimits): ChangeHistory {
  let items: Items = new Map();
  let changes: NumberedChange[] = [];
  let last = 0;
  let isBegun = false;
  return {
    get items() {
      return items;
    },
    get last() {
      return last;
    },
    get characters() {
      return charactersOf(changes);
    },
    advance: (next) => {
      const found = planChanges(items, next);
      items = next;
      const numbered = found.map((change) => ({ ...change, number: ++last }));
      if (isBegun) changes = newest([...changes, ...numbered], maxChanges, maxCharacters);
      isBegun = true;
      return found.length;
    },
    after: (number) => {
      if (number > last) return undefined;
      const first = last - changes.length;
      return number < first ? undefined : changes.slice(number - first);
    },
  };
}

function charactersOf(changes: readonly NumberedChange[]): number {
  return changes.reduce((sum, { text }) => sum + text.length, 0);
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
