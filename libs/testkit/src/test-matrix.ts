/** A suite that runs against several servers. `everyRun`: names of the files whose real server is part of every run. */
export type MatrixSuite = { readonly file: string; readonly everyRun: readonly string[] };

/**
 * Whether the whole matrix of servers includes this suite in a run. `MUSTER_TESTS_MATRIX` is `all`, or `K/N` for one of N slices; without it only the suites
 * of every run are included. Throws an Error for another value.
 */
export function isInMatrix({ file, everyRun }: MatrixSuite, value: string | undefined): boolean {
  const name = file.slice(file.lastIndexOf("/") + 1);
  const [, slice, slices] = /^([1-9]\d*)\/([1-9]\d*)$/.exec(value ?? "") ?? [];
  const isSlice = slice !== undefined && Number(slice) <= Number(slices);
  if (value !== undefined && value !== "" && value !== "all" && !isSlice)
    throw new Error(`MUSTER_TESTS_MATRIX is "${value}"; all or K/N with K of 1 to N is needed, for example 2/4`);
  if (value === "all" || everyRun.includes(name)) return true;
  return isSlice && sliceOf(name, Number(slices)) === Number(slice);
}

/** The slice of a suite, from 1; the same in every run. */
function sliceOf(name: string, slices: number): number {
  return ([...name].reduce((sum, letter) => (sum * 31 + letter.charCodeAt(0)) % 65_521, 0) % slices) + 1;
}
