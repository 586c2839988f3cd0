/** At most 14 letters and digits. FNV-1a with two seeds, so that no two of a thousand texts have one hash by chance. */
export function shortHash(text: string): string {
  const half = (seed: number): string => {
    let hash = seed;
    for (const char of text) hash = Math.imul(hash ^ (char.codePointAt(0) ?? 0), 0x01000193) >>> 0;
    return hash.toString(36);
  };
  return half(0x811c9dc5) + half(0x01234567);
}
