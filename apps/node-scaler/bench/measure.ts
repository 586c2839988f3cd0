/** Processor time in milliseconds: what else the machine does has less influence on it than on the clock. */
export function measure(work: () => void): number {
  const begin = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(begin);
  return (user + system) / 1000;
}

export function median(values: readonly number[]): number {
  return values.toSorted((one, other) => one - other)[Math.floor(values.length / 2)] ?? 0;
}

/** To one decimal. */
export function round(value: number): number {
  return Math.round(value * 10) / 10;
}
