const UNIT_MS = { d: 86_400_000, h: 3_600_000, m: 60_000, s: 1000, ms: 1 } as const;

type Unit = keyof typeof UNIT_MS;

const WHOLE = /^(?:\d+(?:\.\d+)?(?:ms|d|h|m|s))+$/;
const PART = /(\d+(?:\.\d+)?)(ms|d|h|m|s)/g;

/** No wait in Muster is longer than a year; what is longer is a slip. */
export const DURATION_MAX_MS = 366 * UNIT_MS.d;

/** Reads `10m`, `1h30m`, `2.5s`, `500ms` as whole milliseconds; undefined when the text is no duration or is longer than DURATION_MAX_MS. */
export function parseDuration(text: string): number | undefined {
  if (text.length > 64 || !WHOLE.test(text)) return undefined;
  let total = 0;
  for (const [, amount, unit] of text.matchAll(PART)) total += Number(amount) * unitMs(unit);
  const ms = Math.round(total);
  return ms <= DURATION_MAX_MS ? ms : undefined;
}

/** Writes milliseconds so that `parseDuration` reads the same number: `1h30m`, `2s500ms`. */
export function formatDuration(ms: number): string {
  let rest = Math.round(ms);
  let text = "";
  for (const unit of ["d", "h", "m", "s", "ms"] as const) {
    const amount = Math.floor(rest / UNIT_MS[unit]);
    rest -= amount * UNIT_MS[unit];
    if (amount > 0) text += `${amount}${unit}`;
  }
  return text === "" ? "0s" : text;
}

/** Writes a time that has passed for people, coarser the longer it is: `0.4s`, `12.3s`, `4m05s`, `2h07m`, `3d4h`. */
export function formatElapsed(ms: number): string {
  const seconds = Math.max(0, ms) / 1000;
  if (seconds < 59.95) return `${seconds.toFixed(1)}s`;
  const whole = Math.round(seconds);
  if (whole < 3600) return `${Math.floor(whole / 60)}m${pad(whole % 60)}s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 24 * 60) return `${Math.floor(minutes / 60)}h${pad(minutes % 60)}m`;
  return `${Math.floor(minutes / (24 * 60))}d${Math.floor(minutes / 60) % 24}h`;
}

function unitMs(unit: string | undefined): number {
  return UNIT_MS[(unit ?? "ms") as Unit];
}

function pad(amount: number): string {
  return String(amount).padStart(2, "0");
}
