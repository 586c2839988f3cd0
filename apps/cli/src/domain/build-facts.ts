import { plain } from "./build-table.ts";

const GAP = "  ";

/** Lines of names and values. Nothing is cut, so that values can be copied. */
export function buildFacts(facts: readonly (readonly [name: string, value: string])[]): string[] {
  const width = Math.max(...facts.map(([name]) => name.length));
  return facts.map(([name, value]) => `${name.padEnd(width)}${GAP}${plain(value)}`.trimEnd());
}
