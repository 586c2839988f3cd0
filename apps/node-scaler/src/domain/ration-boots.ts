/** Boots that one round makes together, or defers together. */
export type BootUnit = {
  readonly name: string;
  /** The kind of request to the provider. Units of one kind fail to boot for the same reasons. */
  readonly kind: string;
  readonly count: number;
};

/**
 * Plans how many boots of each unit start in this round; a unit outside the result waits. Kinds take turns, and the seed decides which one begins, so a kind
 * that never boots takes no more than its share. Within a kind the given order applies.
 *
 * A unit that fits a round is not split. A larger one starts only in a round of its own, and continues in later ones.
 */
export function planBoots(
  units: readonly BootUnit[],
  bootsPerRound: number,
  seed: string,
): ReadonlyMap<string, number> {
  const granted = new Map<string, number>();
  let left = bootsPerRound;
  let turns = listTurns(units, seed);
  while (left > 0 && turns.length > 0) {
    for (const turn of turns) {
      const unit = nextFitting(turn, left, bootsPerRound);
      if (unit === undefined) continue;
      const boots = Math.min(unit.count, left);
      granted.set(unit.name, boots);
      left -= boots;
    }
    turns = turns.filter(({ units: queue, next }) => next < queue.length);
  }
  return granted;
}

type Turn = { readonly units: BootUnit[]; next: number };

function listTurns(units: readonly BootUnit[], seed: string): readonly Turn[] {
  const byKind = new Map<string, Turn>();
  for (const unit of units) {
    const turn = byKind.get(unit.kind) ?? { units: [], next: 0 };
    turn.units.push(unit);
    byKind.set(unit.kind, turn);
  }
  const turns = [...byKind.values()];
  const first = turns.length === 0 ? 0 : hash(seed) % turns.length;
  return [...turns.slice(first), ...turns.slice(0, first)];
}

/** A unit that does not fit now cannot fit later in the round, so the rest of the round skips it. */
function nextFitting(turn: Turn, left: number, bootsPerRound: number): BootUnit | undefined {
  while (turn.next < turn.units.length) {
    const unit = turn.units[turn.next];
    turn.next += 1;
    if (unit === undefined || left === 0) continue;
    if (unit.count <= left || left === bootsPerRound) return unit;
  }
  return undefined;
}

/** Hashes with FNV-1a, because all processes must compute the same value. */
function hash(text: string): number {
  let state = 0x811c9dc5;
  for (let index = 0; index < text.length; index += 1) {
    state = Math.imul(state ^ text.charCodeAt(index), 0x01000193) >>> 0;
  }
  return state;
}
