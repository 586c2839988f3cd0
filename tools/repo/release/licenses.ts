/** SPDX identifiers of the licenses that packages of Muster may have: each requires only its text beside the program. */
export const ALLOWED = [
  "0BSD",
  "Apache-2.0",
  "BSD-2-Clause",
  "BSD-3-Clause",
  "BlueOak-1.0.0",
  "ISC",
  "MIT",
  "Unlicense",
];

/** A package in an image or in the command. */
export type Shipped = { readonly name: string; readonly version: string; readonly license: string | undefined };

/** Lists packages whose license is missing or not allowed; empty when all are. */
export function checkLicenses(packages: readonly Shipped[]): string[] {
  return packages.flatMap(({ name, version, license }) => {
    if (license === undefined) return [`${name}@${version} states no license`];
    return isAllowed(license)
      ? []
      : [`${name}@${version} has the license ${license}; allowed are ${ALLOWED.join(", ")}`];
  });
}

/** Evaluates an SPDX expression of AND, OR and parentheses; `WITH` and unknown identifiers are not allowed. */
export function isAllowed(expression: string): boolean {
  const words = expression.match(/[()]|[^\s()]+/g) ?? [];
  let at = 0;
  const term = (): boolean => {
    const word = words[at++];
    if (word !== "(") return ALLOWED.includes(word ?? "");
    const inner = either();
    return words[at++] === ")" && inner;
  };
  const both = (): boolean => {
    let result = term();
    while (words[at] === "AND") {
      at += 1;
      result = term() && result;
    }
    return result;
  };
  const either = (): boolean => {
    let result = both();
    while (words[at] === "OR") {
      at += 1;
      result = both() || result;
    }
    return result;
  };
  const result = either();
  return result && at === words.length;
}

/** The file with the texts of the licenses, sorted by package; equal texts of several packages appear once. */
export function buildLicenses(packages: readonly (Shipped & { readonly text: string })[]): string {
  const named = packages.toSorted((a, b) => (`${a.name}@${a.version}` < `${b.name}@${b.version}` ? -1 : 1));
  const byText = Map.groupBy(named, ({ text, license }) => (text === "" ? `License: ${license ?? ""}` : text.trim()));
  const sections = [...byText].map(([text, owners]) =>
    [...owners.map(({ name, version, license }) => `${name} ${version} (${license ?? ""})`), "", text].join("\n"),
  );
  return `${["Software of other authors in Muster, with its licenses.", ...sections].join(`\n\n${"-".repeat(80)}\n\n`)}\n`;
}
