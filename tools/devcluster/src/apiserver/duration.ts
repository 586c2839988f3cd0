/** Formats a duration as kubectl does: `45s`, `3m10s`, `5h`, `2d4h`, `324d`; seconds only if they matter. */
export function formatHumanDuration(ms: number): string {
  const seconds = Math.trunc(ms / 1000);
  if (seconds < -1) return "<invalid>";
  if (seconds < 0) return "0s";
  if (seconds < 120) return `${seconds}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 10) return formatWithRemainder(minutes, "m", seconds % 60, "s");
  if (minutes < 180) return `${minutes}m`;
  const hours = Math.floor(minutes / 60);
  if (hours < 8) return formatWithRemainder(hours, "h", minutes % 60, "m");
  if (hours < 48) return `${hours}h`;
  const days = Math.floor(hours / 24);
  if (hours < 192) return formatWithRemainder(days, "d", hours % 24, "h");
  if (days < 730) return `${days}d`;
  const years = Math.floor(days / 365);
  return years < 8 ? formatWithRemainder(years, "y", days % 365, "d") : `${years}y`;
}

function formatWithRemainder(amount: number, unit: string, rest: number, restUnit: string): string {
  return rest === 0 ? `${amount}${unit}` : `${amount}${unit}${rest}${restUnit}`;
}
