const cache = new Map<string, RegExp | undefined>();
const CACHE_LIMIT = 10_000;

/** Go's regular expressions (RE2) as JavaScript's, as far as both have the same; undefined for one that JavaScript cannot read. */
export function compilePattern(pattern: string): RegExp | undefined {
  if (cache.has(pattern)) return cache.get(pattern);
  if (cache.size >= CACHE_LIMIT) cache.clear();
  const compiled = compile(pattern);
  cache.set(pattern, compiled);
  return compiled;
}

function compile(pattern: string): RegExp | undefined {
  // Before it, an anchor alone is the same with and without these flags.
  const flags = /^\^?\(\?([is]+)\)/.exec(pattern)?.[1] ?? /^\(\?([ims]+)\)/.exec(pattern)?.[1] ?? "";
  const body = (flags === "" ? pattern : pattern.replace(`(?${flags})`, ""))
    .replaceAll("\\A", "^")
    .replaceAll("\\z", "$")
    .replaceAll("(?P<", "(?<")
    .replace(/\[\[:(\w+):\]/g, (_whole, name: string) => `[${CLASSES[name] ?? ""}`)
    .replace(/\[:(\w+):\]/g, (_whole, name: string) => CLASSES[name] ?? "");
  for (const unicode of ["u", ""]) {
    try {
      return new RegExp(body, flags + unicode);
    } catch {
      // Without Unicode more escapes are allowed, as in Go.
    }
  }
  return undefined;
}

const CLASSES: Readonly<Record<string, string>> = {
  alnum: "0-9A-Za-z",
  alpha: "A-Za-z",
  digit: "0-9",
  lower: "a-z",
  space: "\\s",
  upper: "A-Z",
  word: "\\w",
  xdigit: "0-9A-Fa-f",
};
