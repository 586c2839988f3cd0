/** The first of them and how many more there are: `a, b and 3 more`, or sentences, `a; b; and 3 more`. */
export function listSome(texts: readonly string[], most: number, mark: "," | ";"): string {
  const told = texts.slice(0, most).join(`${mark} `);
  const more = texts.length - most;
  if (more <= 0) return told;
  return `${told}${mark === ";" ? "; and" : " and"} ${more} more`;
}
