import { NANO, printQuantity } from "@muster/resources";
import { plural } from "./plural.ts";

/** A part of a machine: quantities of Kubernetes, by resource. */
export type Share = Readonly<Record<string, string>>;

type Held = { readonly shared?: Share | undefined };

const NANO_PER_MILLI = NANO / 1000n;

/** From amounts in millicores of cpu, and otherwise in bytes or pieces. */
export function buildShare(requests: Readonly<Record<string, number>>): Share {
  return Object.fromEntries(
    Object.entries(requests).map(([resource, amount]) => [resource, quantityOf(resource, amount)]),
  );
}

function quantityOf(resource: string, amount: number): string {
  const nano = BigInt(amount) * (resource === "cpu" ? NANO_PER_MILLI : NANO);
  const [decimal, binary] = [printQuantity(nano), printQuantity(nano, "Ki")];
  return binary.length < decimal.length ? binary : decimal;
}

const FIRST = ["cpu", "memory"];

/** `500m cpu, 1Gi, 1 nvidia.com/gpu`; the amount without a name is memory. */
export function describeShare(share: Share): string {
  const names = [
    ...FIRST.filter((name) => name in share),
    ...Object.keys(share)
      .filter((name) => !FIRST.includes(name))
      .sort(),
  ];
  if (names.length === 0) return "no requests";
  return names.map((name) => (name === "memory" ? share[name] : `${share[name]} ${name}`)).join(", ");
}

/** The heading of the column of parts; empty if none of these has a part of a machine. */
export function partHeader(all: readonly Held[]): readonly string[] {
  return all.some(({ shared }) => shared !== undefined) ? ["PART"] : [];
}

/** The cell in that column. */
export function partCells({ shared }: Held, all: readonly Held[]): readonly string[] {
  return partHeader(all).map(() => (shared === undefined ? "whole" : describeShare(shared)));
}

/** `2 machines and 3 parts of machines`. */
export function countMachines(all: readonly Held[]): string {
  const { whole, parts } = splitMachines(all);
  const texts = [
    ...(whole > 0 || parts === 0 ? [plural(whole, "machine")] : []),
    ...(parts > 0 ? [parts === 1 ? "1 part of a machine" : `${parts} parts of machines`] : []),
  ];
  return texts.join(" and ");
}

/** The same for a column of a table: `2 + 3 parts`. */
export function machineCell(all: readonly Held[]): string {
  const { whole, parts } = splitMachines(all);
  return [...(whole > 0 || parts === 0 ? [String(whole)] : []), ...(parts > 0 ? [plural(parts, "part")] : [])].join(
    " + ",
  );
}

function splitMachines(all: readonly Held[]): { readonly whole: number; readonly parts: number } {
  const parts = all.filter(({ shared }) => shared !== undefined).length;
  return { whole: all.length - parts, parts };
}
