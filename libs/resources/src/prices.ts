type Priced = { readonly pricePerHourMicros?: number | undefined };

/** Formats a price in millionths for people, such as `0.192`. Rounds to four places. */
export function formatPrice(micros: number): string {
  return String(Math.round(micros / 100) / 10_000);
}

/** Describes the price of these nodes together per hour. Undefined if no node has a price. */
export function describePrices(nodes: readonly Priced[]): string | undefined {
  const prices = nodes.flatMap(({ pricePerHourMicros = 0 }) => (pricePerHourMicros > 0 ? [pricePerHourMicros] : []));
  if (prices.length === 0) return undefined;
  const sum = formatPrice(prices.reduce((total, price) => total + price, 0));
  const unknown = nodes.length - prices.length;
  return `${sum} an hour${unknown === 0 ? "" : `, without the ${unknown} of unknown price`}`;
}
