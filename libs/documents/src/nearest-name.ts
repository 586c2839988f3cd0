/**
 * The known name that a misspelt one most likely means; undefined if none is near. Near names differ only in case, or by at most one edit for every three
 * characters (an inserted, deleted, replaced or transposed letter).
 */
export function findNearestName(wrong: string, known: readonly string[]): string | undefined {
  const given = wrong.slice(0, MAX_COMPARED_CHARACTERS).toLowerCase();
  let best: { name: string; distance: number } | undefined;
  for (const name of known) {
    const distance = editDistance(given, name.toLowerCase());
    if (distance > Math.max(1, Math.floor(Math.max(given.length, name.length) / 3))) continue;
    if (best === undefined || distance < best.distance) best = { name, distance };
  }
  return best?.name;
}

/** Maximum compared characters of a longer name. */
const MAX_COMPARED_CHARACTERS = 64;

/** Optimal string alignment distance, with three rows of the table. */
function editDistance(a: string, b: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const substitute = at(last, j - 1) + (a[i - 1] === b[j - 1] ? 0 : 1);
      let distance = Math.min(substitute, at(last, j) + 1, at(row, j - 1) + 1);
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      if (swapped) distance = Math.min(distance, at(beforeLast, j - 2) + 1);
      row.push(distance);
    }
    beforeLast = last;
    last = row;
  }
  return at(last, b.length);
}

function at(row: readonly number[], index: number): number {
  return row[index] ?? Number.POSITIVE_INFINITY;
}
