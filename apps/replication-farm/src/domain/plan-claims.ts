import { matchesLabels, type LabelSelector } from "@muster/names";

/** A farm that lives, as its session tells. */
export type LiveFarm = {
  readonly session: string;
  /** Sets whose labels it does not match are not for this farm. */
  readonly selector: LabelSelector;
};

export type OwnableSet = {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  /** Session that has it; undefined: nobody who lives. */
  readonly owner: string | undefined;
};

export type ClaimStep =
  | { readonly kind: "claim"; readonly set: string; readonly because: "free" }
  | { readonly kind: "release"; readonly set: string; readonly because: "not-selected" | "for-another-farm" };

/**
 * Which sets a farm takes and which it gives up. Each set prefers one of the farms that select it, by a hash of both names, so that all farms agree without a word, sets are spread
 * evenly, and of a farm that comes or goes only its own sets move.
 */
export function planClaims(self: string, farms: readonly LiveFarm[], sets: readonly OwnableSet[]): ClaimStep[] {
  return sets.flatMap((set): ClaimStep[] => {
    const preferred = preferredFarm(set, farms);
    if (set.owner === self) {
      if (preferred === self) return [];
      return [
        { kind: "release", set: set.name, because: preferred === undefined ? "not-selected" : "for-another-farm" },
      ];
    }
    return set.owner === undefined && preferred === self ? [{ kind: "claim", set: set.name, because: "free" }] : [];
  });
}

function preferredFarm(set: OwnableSet, farms: readonly LiveFarm[]): string | undefined {
  let best: { readonly session: string; readonly score: number } | undefined;
  for (const { session, selector } of farms) {
    if (!matchesLabels(selector, set.labels)) continue;
    const score = scoreOf(`${session}\n${set.name}`);
    if (best === undefined || score > best.score || (score === best.score && session < best.session))
      best = { session, score };
  }
  return best?.session;
}

/** FNV-1a, and then the last step of MurmurHash3: names that differ in their last letter alone are to be spread like any others. */
function scoreOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index += 1) {
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  }
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
