/** A suspect that has not crashed its executor by then no longer blocks the others. */
const MAX_SUSPECT_MS = 10_000;

/** Grants turns one at a time; a turn that lasts too long no longer blocks the others. */
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
