const FORM = /^([+-]?)(\d+(?:\.\d*)?|\.\d+)(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][+-]?\d+)?$/;
const DECIMAL = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
const BINARY = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/** The number 1 as a parsed quantity, which counts 10^-9. */
export const NANO = 1_000_000_000n;

/** Parses a quantity of Kubernetes exactly, as a whole number of 10^-9; undefined if the text is no quantity. */
export function parseQuantity(text: string): bigint | undefined {
  const [whole, sign = "", digits = "", suffix = ""] = FORM.exec(text) ?? [];
  if (whole === undefined) return undefined;
  const [integer = "", fraction = ""] = digits.split(".");
  const value = BigInt(integer + fraction) * (sign === "-" ? -1n : 1n);
  const exponent = /^[eE]([+-]?\d+)$/.exec(suffix)?.[1];
  if (exponent !== undefined && Math.abs(Number(exponent)) > 30) return undefined;
  const power = exponent === undefined ? (DECIMAL.indexOf(suffix) - 3) * 3 : Number(exponent);
  const isBinary = suffix.endsWith("i");
  const scale = isBinary ? 1024n ** BigInt(BINARY.indexOf(suffix)) : 10n ** BigInt(Math.max(0, power));
  const divisor = 10n ** BigInt(fraction.length + (isBinary ? 0 : Math.max(0, -power)));
  return (value * scale * NANO) / divisor;
}

/** The amount as a quantity of Kubernetes: cpu is in millicores, everything else in bytes or pieces. Returns the shorter of two forms. */
export function printAmount(resource: string, amount: number): string {
  const nano = BigInt(amount) * (resource === "cpu" ? NANO / 1000n : NANO);
  const [decimal, binary] = [printQuantity(nano), printQuantity(nano, "Ki")];
  return binary.length < decimal.length ? binary : decimal;
}

/** Bytes in three digits, rounded down: `15.4Gi`. Other amounts as `printAmount`. */
export function roundAmount(resource: string, amount: number): string {
  if (!isBytes(resource) || amount < 1024) return printAmount(resource, amount);
  const power = Math.min(BINARY.length - 1, Math.floor(Math.log2(amount) / 10));
  const value = amount / 1024 ** power;
  const scale = value < 10 ? 100 : value < 100 ? 10 : 1;
  return `${Math.floor(value * scale) / scale}${BINARY[power] ?? ""}`;
}

function isBytes(resource: string): boolean {
  return resource === "memory" || resource === "ephemeral-storage" || resource.startsWith("hugepages-");
}

/** Returns the shortest text for a quantity: by powers of 1024 if `like` ends with such a suffix and the quantity is whole, otherwise by powers of 1000. */
export function printQuantity(nano: bigint, like = ""): string {
  if (nano === 0n) return "0";
  if (like.endsWith("i") && nano % NANO === 0n) {
    const value = nano / NANO;
    const power = BINARY.findLastIndex((_, index) => value % 1024n ** BigInt(index) === 0n);
    return `${value / 1024n ** BigInt(power)}${BINARY[power] ?? ""}`;
  }
  const power = DECIMAL.findLastIndex((_, index) => nano % 1000n ** BigInt(index) === 0n);
  return `${nano / 1000n ** BigInt(power)}${DECIMAL[power] ?? ""}`;
}
