import { NANO, parseQuantity } from "./quantity.ts";

/** Amounts by resource: cpu in millicores, all others in their own unit, such as bytes or pieces. Whole numbers, as kube-scheduler counts. */
export type Amounts = ReadonlyMap<string, number>;

const NANO_PER_MILLI = NANO / 1000n;

/** Parses a quantity such as `250m`, `1.5`, `2Gi` or `1e3`, rounded up. Undefined if the text is not a quantity. */
export function parseAmount(resource: string, text: string): number | undefined {
  const nano = parseQuantity(text.trim());
  if (nano === undefined) return undefined;
  const unit = resource === "cpu" ? NANO_PER_MILLI : NANO;
  const whole = nano / unit;
  return Number(whole * unit < nano ? whole + 1n : whole);
}

/** Parses these quantities; a text that is not a quantity counts as zero. */
export function parseAmounts(quantities: Readonly<Record<string, string>>): Amounts {
  return new Map(Object.entries(quantities).map(([resource, text]) => [resource, parseAmount(resource, text) ?? 0]));
}
