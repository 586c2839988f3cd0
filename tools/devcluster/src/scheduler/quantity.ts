const SUFFIX: Readonly<Record<string, number>> = {
  n: 1e-9,
  u: 1e-6,
  m: 1e-3,
  "": 1,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  E: 1e18,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
  Pi: 2 ** 50,
  Ei: 2 ** 60,
};

const QUANTITY = /^([+-]?(?:\d+\.?\d*|\.\d+))(?:[eE]([+-]?\d+)|([numkMGTPE]i?))?$/;

/**
 * A Kubernetes quantity ("250m", "1.5", "2Gi", "1e3") in thousandths, rounded up: whole numbers, so that sums of requests compare exactly.
 * Undefined when the text is not a quantity.
 */
export function milliQuantity(text: string): number | undefined {
  const match = QUANTITY.exec(text.trim());
  if (match === null) return undefined;
  const [, digits = "", exponent = "0", suffix = ""] = match;
  const factor = SUFFIX[suffix];
  if (factor === undefined) return undefined;
  const exact = Number(digits) * 10 ** Number(exponent) * factor * 1000;
  // 0.1 * 1000 has no exact form in binary; what is a hair above a whole number is that number.
  const nearest = Math.round(exact);
  return Math.abs(exact - nearest) <= Math.abs(nearest) * 1e-12 ? nearest : Math.ceil(exact);
}
