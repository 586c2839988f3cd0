import type { Amounts } from "@muster/resources";

/** Returns equal amounts as one map. The pods of one template request the same, and there may be ten thousands of them. */
export function makeEqualAmounts(maxKept = 10_000): (amounts: Amounts) => Amounts {
  const kept = new Map<string, Amounts>();
  return (amounts) => {
    const key = JSON.stringify([...amounts]);
    const known = kept.get(key);
    if (known !== undefined) return known;
    // Pods keep the maps that they have.
    if (kept.size >= maxKept) kept.clear();
    kept.set(key, amounts);
    return amounts;
  };
}
