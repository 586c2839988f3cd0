import { nearestName } from "@muster/documents";

/** The hint for a name that is not among the known ones: the nearest of these, or `otherwise`. */
export function suggestName(name: string, known: readonly string[], otherwise: string): string {
  const near = nearestName(name, known);
  return near === undefined ? otherwise : `did you mean "${near}"?`;
}
