/** Hashes a text to at most 14 letters and digits. FNV-1a with two seeds, so that collisions among a thousand texts are improbable. */
export function computeShortHash(text: string): string {
  const half = (seed: number): string => {
    let hash = seed;
    for (const char of text) hash = Math.imul(hash ^ (char.codePointAt(0) ?? 0), 0x01000193) >>> 0;
    return hash.toString(36);
  };
  return half(0x811c9dc5) + half(0x01234567);
}
