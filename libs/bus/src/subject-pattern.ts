/** Whether a subject matches a pattern: `*` stands for one token, `>` at the end for one or more. */
export function matchesSubject(pattern: string, subject: string): boolean {
  const wanted = pattern.split(".");
  const tokens = subject.split(".");
  for (const [index, want] of wanted.entries()) {
    if (want === ">") return tokens.length > index;
    if (index >= tokens.length || (want !== "*" && want !== tokens[index])) return false;
  }
  return wanted.length === tokens.length;
}

/** Whether a subject exists that matches both patterns. */
export function isOverlapping(first: string, second: string): boolean {
  const a = first.split(".");
  const b = second.split(".");
  for (let index = 0; index < Math.min(a.length, b.length); index += 1) {
    if (a[index] === ">" || b[index] === ">") return true;
    if (a[index] !== "*" && b[index] !== "*" && a[index] !== b[index]) return false;
  }
  return a.length === b.length;
}
