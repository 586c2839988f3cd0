/** Formats `1 pod`, `2 pods`. The noun must form its plural with an s. */
export function formatCount(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}
