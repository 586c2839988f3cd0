import { readFile } from "node:fs/promises";

export type Figures = {
  readonly perSecond: number;
  readonly p99Ms: number;
  /** The client's processor time per call. */
  readonly clientUs: number;
};

/** Kernel ticks per second, on every Linux that Node supports. */
const TICKS_PER_S = 100;

export function percentile(values: readonly number[], part: number): number {
  return (
    values.toSorted((one, other) => one - other)[Math.min(values.length - 1, Math.floor(values.length * part))] ?? NaN
  );
}

export function median(values: readonly number[]): number {
  return percentile(values, 0.5);
}

/** Returns the processor time that the process has used, in ms. */
export async function processorMs(pid: number): Promise<number> {
  const fields = (await readFile(`/proc/${pid}/stat`, "utf8")).split(") ")[1]?.split(" ") ?? [];
  return ((Number(fields[11]) + Number(fields[12])) * 1000) / TICKS_PER_S;
}

export async function residentBytes(pid: number): Promise<number> {
  return Number(/VmRSS:\s+(\d+)/.exec(await readFile(`/proc/${pid}/status`, "utf8"))?.[1]) * 1024;
}
