/** A suspect session that has not crashed its executor after this time no longer blocks other suspect sessions. */
const MAX_SUSPECT_MS = 10_000;

/** Grants turns one at a time; a turn longer than MAX_SUSPECT_MS no longer blocks the next one. */
export function makeSuspectTurns(monotonicMs: () => number) {
  let turn: { readonly name: string; readonly untilMs: number } | undefined;
  return {
    tryTake: (name: string): boolean => {
      if (turn !== undefined && turn.name !== name && monotonicMs() < turn.untilMs) return false;
      if (turn?.name !== name) turn = { name, untilMs: monotonicMs() + MAX_SUSPECT_MS };
      return true;
    },
    release: (name: string): void => {
      if (turn?.name === name) turn = undefined;
    },
  };
}
