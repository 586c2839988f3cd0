/** Decodes the segments of a path; undefined for invalid escapes. */
export function decodeSegments(path: string): string[] | undefined {
  try {
    return path
      .split("/")
      .slice(1)
      .map(decodeURIComponent)
      .filter((segment, index, all) => segment !== "" || index < all.length - 1);
  } catch {
    return undefined;
  }
}
