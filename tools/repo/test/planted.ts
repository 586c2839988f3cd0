/** Files that the boundary test writes temporarily. Tests that read the whole source skip them. */
export function isPlanted(file: string): boolean {
  return /\/planted-\w\.ts$/.test(file);
}
