import { findNearestName } from "@muster/documents";

/** Suggests the nearest known name for an unknown one, or returns `otherwise`. */
export function suggestName(name: string, known: readonly string[], otherwise: string): string {
  const near = findNearestName(name, known);
  return near === undefined ? otherwise : `did you mean "${near}"?`;
}
