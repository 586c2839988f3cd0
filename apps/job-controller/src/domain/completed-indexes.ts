/** Formats ascending indexes as Kubernetes' indexed jobs do: `0-3,7`. Returns an empty text for none. */
export function formatIndexes(indexes: readonly number[]): string {
  const runs: [number, number][] = [];
  for (const index of indexes) {
    const last = runs.at(-1);
    if (last !== undefined && last[1] + 1 === index) last[1] = index;
    else runs.push([index, index]);
  }
  return runs.map(([from, to]) => (from === to ? `${from}` : `${from}-${to}`)).join(",");
}

const RUN = /^(\d{1,6})(?:-(\d{1,6}))?$/;

/** Parses the indexes less than `below`, ascending and each once. Ignores malformed parts, because people may have written them. */
export function parseIndexes(text: string, below: number): number[] {
  const indexes = new Set<number>();
  for (const part of text.split(",")) {
    const match = RUN.exec(part.trim());
    if (match === null) continue;
    const from = Number(match[1]);
    const to = Math.min(Number(match[2] ?? match[1]), below - 1);
    for (let index = from; index <= to; index += 1) indexes.add(index);
  }
  return [...indexes].sort((a, b) => a - b);
}
