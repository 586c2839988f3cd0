/** Notes for logs, which are never stored or sent: `a: 1, b: 2`, in the order of the keys. */
export function buildTag(notes: Readonly<Record<string, string>>): string {
  return Object.keys(notes)
    .toSorted()
    .map((key) => `${key}: ${notes[key] ?? ""}`)
    .join(", ");
}
