import type { Environment } from "@marcbachmann/cel-js";
import { NANO, parseQuantity } from "../quantity.ts";

/** A quantity of Kubernetes, exact: a whole number of 10^-9. */
class Quantity {
  readonly nano: bigint;
  constructor(nano: bigint) {
    this.nano = nano;
  }
}

function parse(text: string): Quantity | undefined {
  const nano = parseQuantity(text);
  return nano === undefined ? undefined : new Quantity(nano);
}

/** `quantity("1.5Gi").isGreaterThan(...)` and its like. */
export function addQuantities(environment: Environment): void {
  const compare = (a: Quantity, b: Quantity): bigint => (a.nano < b.nano ? -1n : a.nano > b.nano ? 1n : 0n);
  environment
    .registerType("kubernetes.Quantity", { ctor: Quantity, fields: {} })
    .registerOperator("kubernetes.Quantity == kubernetes.Quantity", (a: Quantity, b: Quantity) => a.nano === b.nano)
    .registerFunction("isQuantity(string): bool", (text: string) => parse(text) !== undefined)
    .registerFunction("quantity(string): kubernetes.Quantity", (text: string) => {
      const parsed = parse(text);
      if (parsed === undefined) throw new Error(`quantities must match the regular expression: ${text}`);
      return parsed;
    })
    .registerFunction("kubernetes.Quantity.sign(): int", (one: Quantity) => compare(one, new Quantity(0n)))
    .registerFunction("kubernetes.Quantity.isInteger(): bool", (one: Quantity) => one.nano % NANO === 0n)
    .registerFunction("kubernetes.Quantity.asInteger(): int", (one: Quantity) => {
      if (one.nano % NANO !== 0n) throw new Error("cannot convert value to integer");
      return one.nano / NANO;
    })
    .registerFunction("kubernetes.Quantity.asApproximateFloat(): double", (one: Quantity) => Number(one.nano) / 1e9)
    .registerFunction("kubernetes.Quantity.compareTo(kubernetes.Quantity): int", compare)
    .registerFunction(
      "kubernetes.Quantity.isGreaterThan(kubernetes.Quantity): bool",
      (a: Quantity, b: Quantity) => a.nano > b.nano,
    )
    .registerFunction(
      "kubernetes.Quantity.isLessThan(kubernetes.Quantity): bool",
      (a: Quantity, b: Quantity) => a.nano < b.nano,
    );
  for (const [name, sign] of [
    ["add", 1n],
    ["sub", -1n],
  ] as const) {
    environment
      .registerFunction(
        `kubernetes.Quantity.${name}(kubernetes.Quantity): kubernetes.Quantity`,
        (a: Quantity, b: Quantity) => new Quantity(a.nano + sign * b.nano),
      )
      .registerFunction(
        `kubernetes.Quantity.${name}(int): kubernetes.Quantity`,
        (a: Quantity, b: bigint) => new Quantity(a.nano + sign * b * NANO),
      );
  }
}
