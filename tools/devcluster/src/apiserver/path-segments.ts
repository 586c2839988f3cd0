/** The parts of a path; undefined for escapes that are none. */
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
