const UNIT_MS = { d: 86_400_000, h: 3_600_000, m: 60_000, s: 1000, ms: 1 } as const;

type Unit = keyof typeof UNIT_MS;

const WHOLE = /^(?:\d+(?:\.\d+)?(?:ms|d|h|m|s))+$/;
const PART = /(\d+(?:\.\d+)?)(ms|d|h|m|s)/g;

/** Maximum duration: no wait in Muster exceeds a year, so a longer one is a mistake. */
export const MAX_DURATION_MS = 366 * UNIT_MS.d;

/** Reads `10m`, `1h30m`, `2.5s`, `500ms` as whole milliseconds; undefined when the text is no duration or is longer than MAX_DURATION_MS. */
export function parseDuration(text: string): number | undefined {
  if (text.length > 64 || !WHOLE.test(text)) return undefined;
  let total = 0;
  for (const [, amount, unit] of text.matchAll(PART)) total += Number(amount) * unitMs(unit);
  const ms = Math.round(total);
  return ms <= MAX_DURATION_MS ? ms : undefined;
}

function unitMs(unit: string | undefined): number {
  return UNIT_MS[(unit ?? "ms") as Unit];
}
