import { createHash } from "node:crypto";

/** The text of SHA256SUMS for `sha256sum --check`, sorted by name. */
export function buildChecksums(files: ReadonlyMap<string, Buffer>): string {
  return [...files]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, content]) => `${createHash("sha256").update(content).digest("hex")}  ${name}\n`)
    .join("");
}
