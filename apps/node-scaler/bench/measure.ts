/** Measures processor time in milliseconds, which depends less on other load of the machine than the clock does. */
export function measureMs(work: () => void): number {
  const begin = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(begin);
  return (user + system) / 1000;
}

export function computeMedian(values: readonly number[]): number {
  return values.toSorted((one, other) => one - other)[Math.floor(values.length / 2)] ?? 0;
}

/** Rounds to one decimal. */
export function roundValue(value: number): number {
  return Math.round(value * 10) / 10;
}
