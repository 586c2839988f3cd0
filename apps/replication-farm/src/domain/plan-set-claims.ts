import { matchesLabels, type LabelSelector } from "@muster/names";

/** A live farm, by its session. */
export type LiveFarm = {
  readonly session: string;
  /** The farm owns only sets whose labels match. */
  readonly selector: LabelSelector;
};

export type OwnableSet = {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  /** The live session of the owner; undefined: no owner. */
  readonly owner: string | undefined;
};

type ClaimStep =
  | { readonly kind: "claim"; readonly set: string; readonly because: "free" }
  | { readonly kind: "release"; readonly set: string; readonly because: "not-selected" | "for-another-farm" };

/**
 * Plans the sets that a farm claims and releases. Each set prefers one of the farms that select it, by a hash of both names. All farms agree without
 * communication, sets are spread evenly, and when a farm starts or stops only its own sets move.
 */
export function planSetClaims(self: string, farms: readonly LiveFarm[], sets: readonly OwnableSet[]): ClaimStep[] {
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
    const score = computeScore(`${session}\n${set.name}`);
    if (best === undefined || score > best.score || (score === best.score && session < best.session))
      best = { session, score };
  }
  return best?.session;
}

/** FNV-1a, then the finalizer of MurmurHash3, so that names that differ only in their last letter are spread well. */
function computeScore(text: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index += 1) {
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  }
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
