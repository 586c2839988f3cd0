import { printAmount } from "@muster/resources";
import { formatCount } from "./plural.ts";

/** A part of a machine: quantities of Kubernetes, by resource. */
export type Share = Readonly<Record<string, string>>;

type Held = { readonly shared?: Share | undefined };

/** Formats amounts, which are millicores of cpu, and otherwise bytes or pieces. */
export function buildShare(requests: Readonly<Record<string, number>>): Share {
  return Object.fromEntries(
    Object.entries(requests).map(([resource, amount]) => [resource, printAmount(resource, amount)]),
  );
}

const FIRST = ["cpu", "memory"];

/** Formats `500m cpu, 1Gi, 1 nvidia.com/gpu`; the amount without a name is memory. */
export function describeShare(share: Share): string {
  const names = listResources(share);
  if (names.length === 0) return "no requests";
  return names.map((name) => (name === "memory" ? share[name] : `${share[name]} ${name}`)).join(", ");
}

/** Returns the heading of the column of parts; empty if no item has a part of a machine. */
export function buildPartHeader(all: readonly Held[]): readonly string[] {
  return all.some(({ shared }) => shared !== undefined) ? ["PART"] : [];
}

/** Returns the cell in the column of parts; empty if that column is missing. */
export function buildPartCells({ shared }: Held, all: readonly Held[]): readonly string[] {
  return buildPartHeader(all).map(() => (shared === undefined ? "whole" : describeShare(shared)));
}

/** Formats `2 machines and 3 parts of machines`. */
export function countMachines(all: readonly Held[]): string {
  const { whole, parts } = splitMachines(all);
  const texts = [
    ...(whole > 0 || parts === 0 ? [formatCount(whole, "machine")] : []),
    ...(parts > 0 ? [parts === 1 ? "1 part of a machine" : `${parts} parts of machines`] : []),
  ];
  return texts.join(" and ");
}

/** Formats the machines for a column of a table: `2 + 3 parts`. */
export function buildMachineCell(all: readonly Held[]): string {
  return buildCountCell(all.length, splitMachines(all).parts);
}

/** Formats numbers for a column of a table; `parts` of the `machines` are parts. */
export function buildCountCell(machines: number, parts: number): string {
  const whole = machines - parts;
  return [
    ...(whole > 0 || parts === 0 ? [String(whole)] : []),
    ...(parts > 0 ? [formatCount(parts, "part")] : []),
  ].join(" + ");
}

/** Returns the resources of a share, cpu and memory first. */
export function listResources(share: Share): readonly string[] {
  const others = Object.keys(share).filter((name) => !FIRST.includes(name));
  return [...FIRST.filter((name) => name in share), ...others.sort()];
}

function splitMachines(all: readonly Held[]): { readonly whole: number; readonly parts: number } {
  const parts = all.filter(({ shared }) => shared !== undefined).length;
  return { whole: all.length - parts, parts };
}
