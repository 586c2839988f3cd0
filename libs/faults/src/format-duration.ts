const UNITS = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1000],
  ["ms", 1],
] as const;

/** Writes milliseconds as users write durations in files and on command lines: `1h30m`, `2s500ms`. */
export function formatDuration(ms: number): string {
  let rest = Math.round(ms);
  let text = "";
  for (const [unit, unitMs] of UNITS) {
    const amount = Math.floor(rest / unitMs);
    rest -= amount * unitMs;
    if (amount > 0) text += `${amount}${unit}`;
  }
  return text === "" ? "0s" : text;
}
