import type { Amounts } from "@muster/resources";

/** Returns the function that replaces equal amounts by one shared map. Pods of one template have equal requests, and tens of thousands of them may exist. */
export function makeEqualAmounts(maxKept = 10_000): (amounts: Amounts) => Amounts {
  const kept = new Map<string, Amounts>();
  return (amounts) => {
    const key = JSON.stringify([...amounts]);
    const known = kept.get(key);
    if (known !== undefined) return known;
    // Existing pods keep their maps.
    if (kept.size >= maxKept) kept.clear();
    kept.set(key, amounts);
    return amounts;
  };
}
