const DURATION = /^(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+$/;
const DURATION_PART = /(\d+(?:\.\d+)?)(ms|s|m|h|d)/g;
const UNIT_MS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

const QUANTITY = /^(\d+(?:\.\d+)?)(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi|[eE]\d+)?$/;
const FACTOR: Readonly<Record<string, number>> = {
  "": 1,
  m: 1e-3,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
  Pi: 2 ** 50,
};

/** Milliseconds of `5m`, `1h30m`, `90s`, `0s` or `250ms`; undefined when it is none. */
export function parseDuration(text: string): number | undefined {
  if (!DURATION.test(text)) return undefined;
  const parts = [...text.matchAll(DURATION_PART)];
  return Math.round(parts.reduce((sum, [, number, unit]) => sum + Number(number) * (UNIT_MS[unit ?? ""] ?? 0), 0));
}

/** The number that a Kubernetes quantity means, such as `500m`, `4`, `16Gi` or `2e3`; undefined when it is none. Never negative. */
export function parseQuantity(text: string | number): number | undefined {
  const match = QUANTITY.exec(String(text));
  if (match === null) return undefined;
  const [, number = "", suffix = ""] = match;
  const factor = /^[eE]\d/.test(suffix) ? 10 ** Number(suffix.slice(1)) : FACTOR[suffix];
  return factor === undefined ? undefined : Number(number) * factor;
}
