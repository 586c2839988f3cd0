/** Describes an elapsed time, rounded down to whole seconds: `40 s`, `9m50s`, `2h05m`. */
export function describePassed(ms: number): string {
  return inWords(Math.floor(Math.max(0, ms) / 1000));
}

/** Describes a remaining time, rounded up, up to an hour. */
export function describeLeft(ms: number): string {
  return inWords(Math.ceil(Math.max(0, ms) / 1000));
}

function inWords(seconds: number): string {
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes}m${twoDigits(seconds % 60)}s`;
  return `${Math.floor(minutes / 60)}h${twoDigits(minutes % 60)}m`;
}

function twoDigits(number: number): string {
  return String(number).padStart(2, "0");
}
