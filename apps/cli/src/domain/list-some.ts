/** Lists the first texts and the number of the others: `a, b and 3 more`, or for sentences `a; b; and 3 more`. */
export function listSome(texts: readonly string[], max: number, mark: "," | ";"): string {
  const listed = texts.slice(0, max).join(`${mark} `);
  const more = texts.length - max;
  if (more <= 0) return listed;
  return `${listed}${mark === ";" ? "; and" : " and"} ${more} more`;
}
