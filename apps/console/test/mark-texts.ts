/** Markup that runs a script where a page renders it. */
export const MARKUP = `<img src=x onerror="window.pwned=1"><script>window.pwned=1</script>`;

/** Values that a page compares with others: codes, and states of jobs and machines. */
const CODE = /^[A-Z][A-Za-z_]*$/;
/** Fields that a page compares with its address, or puts into one. */
const ADDRESSES = ["name", "id", "kind", "namespace", "queue", "parent", "traceparent"];

/** Appends markup to each text of an answer, except codes and, if `keepsAddresses`, the fields by which a page finds its work. */
export function markTexts(answer: unknown, keepsAddresses: boolean, field = ""): unknown {
  const mark = (each: unknown, name: string): unknown => markTexts(each, keepsAddresses, name);
  if (typeof answer === "string") {
    if (field.endsWith("Json") && answer !== "") return JSON.stringify(mark(JSON.parse(answer), field));
    const isKept = CODE.test(answer) || field === "kind" || (keepsAddresses && ADDRESSES.includes(field));
    return isKept ? answer : `${answer}${MARKUP}`;
  }
  if (answer instanceof Uint8Array) return Buffer.concat([answer, Buffer.from(MARKUP)]);
  if (Array.isArray(answer)) return answer.map((each) => mark(each, field));
  if (typeof answer !== "object" || answer === null) return answer;
  return Object.fromEntries(Object.entries(answer).map(([name, each]) => [name, mark(each, name)]));
}
