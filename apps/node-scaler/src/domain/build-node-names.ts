const LABEL_LENGTH = 63;

/**
 * Returns names for the new nodes of a round, `<pool>-<seed>-<number>`: valid DNS labels, all different, and none in use. The number counts over all pools. So
 * pools whose names differ only in characters that a label excludes share no name.
 */
export function makeNodeNames(seed: string, inUse: ReadonlySet<string>): (pool: string) => string {
  let number = 0;
  return (pool) => {
    for (;;) {
      const end = `-${buildLabelPart(seed)}-${number}`;
      const start = buildLabelPart(pool).slice(0, Math.max(1, LABEL_LENGTH - end.length));
      const name = `${start}${end}`.slice(-LABEL_LENGTH).replace(/^-+/, "");
      number += 1;
      if (!inUse.has(name)) return name;
    }
  };
}

function buildLabelPart(text: string): string {
  const part = text
    .toLowerCase()
    .replace(/[^a-z0-9-]+/g, "-")
    .replace(/^-+|-+$/g, "");
  return part === "" ? "n" : part;
}
