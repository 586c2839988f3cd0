import { escapeControls } from "./build-table.ts";

const GAP = "  ";

/** Formats names and values as lines, which are never cut, so that users can copy values. */
export function buildFacts(facts: readonly (readonly [name: string, value: string])[]): string[] {
  const width = Math.max(...facts.map(([name]) => name.length));
  return facts.map(([name, value]) => `${name.padEnd(width)}${GAP}${escapeControls(value)}`.trimEnd());
}
