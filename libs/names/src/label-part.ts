/** Builds a part of a DNS label: without the separator of parts of owners, and without `-` at its end. */
export function buildLabelPart(text: string, max: number): string {
  return text
    .replaceAll(/[^a-z0-9]+/g, "-")
    .slice(0, max)
    .replace(/-+$/, "");
}
