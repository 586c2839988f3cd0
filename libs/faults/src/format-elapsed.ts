/**
 * Formats an elapsed time, coarser the longer it is: `0.4s`, `12.3s`, `4m05s`, `2h07m`, `3d4h`. With a resolution of seconds it shows no tenths: `<1s`, `12s`.
 */
export function formatElapsed(ms: number, resolution: "exact" | "seconds" = "exact"): string {
  const seconds = Math.max(0, ms) / 1000;
  if (resolution === "seconds" && seconds < 60) return seconds < 1 ? "<1s" : `${Math.floor(seconds)}s`;
  if (seconds < 59.95) return `${seconds.toFixed(1)}s`;
  const whole = Math.round(seconds);
  if (whole < 3600) return `${Math.floor(whole / 60)}m${pad(whole % 60)}s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 24 * 60) return `${Math.floor(minutes / 60)}h${pad(minutes % 60)}m`;
  return `${Math.floor(minutes / (24 * 60))}d${Math.floor(minutes / 60) % 24}h`;
}

function pad(amount: number): string {
  return String(amount).padStart(2, "0");
}
