import { NANO, parseQuantity } from "../apiserver/quantity.ts";

const NANO_PER_MILLI = NANO / 1000n;

/** A Kubernetes quantity ("250m", "1.5", "2Gi", "1e3") in thousandths, rounded up, so that sums of requests compare exactly. Undefined for another text. */
export function milliQuantity(text: string): number | undefined {
  const nano = parseQuantity(text.trim());
  if (nano === undefined) return undefined;
  const whole = nano / NANO_PER_MILLI;
  return Number(whole * NANO_PER_MILLI < nano ? whole + 1n : whole);
}
