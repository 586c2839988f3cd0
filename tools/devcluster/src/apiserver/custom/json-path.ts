import { at, isList, isObject, type Json } from "../json.ts";

type Step =
  | { readonly do: "field"; readonly name: string }
  | { readonly do: "index"; readonly index: number }
  | { readonly do: "slice"; readonly start: number; readonly end: number | undefined }
  | { readonly do: "all" };

/** The JSON paths of columns: fields, indexes, slices such as `[-1:]`, and `[*]`. Undefined for any other text. */
export function parseJsonPath(text: string): ((object: Json) => readonly Json[]) | undefined {
  const steps: Step[] = [];
  let rest = text.replace(/^\$/, "");
  while (rest !== "") {
    const step = readStep(rest);
    if (step === undefined) return undefined;
    steps.push(step.step);
    rest = rest.slice(step.length);
  }
  return (object) =>
    steps.reduce<readonly Json[]>((found, step) => found.flatMap((one) => follow(one, step)), [object]);
}

function readStep(text: string): { readonly step: Step; readonly length: number } | undefined {
  const field = /^\.((?:\\.|[^.[\]\\])+)/.exec(text);
  if (field !== null) {
    const name = (field[1] ?? "").replace(/\\(.)/g, "$1");
    return { step: name === "*" ? { do: "all" } : { do: "field", name }, length: field[0].length };
  }
  const key = /^\.?\['((?:\\.|[^'\\])*)'\]/.exec(text);
  if (key !== null)
    return { step: { do: "field", name: (key[1] ?? "").replace(/\\(.)/g, "$1") }, length: key[0].length };
  const index = /^\[(-?\d+)\]/.exec(text);
  if (index !== null) return { step: { do: "index", index: Number(index[1]) }, length: index[0].length };
  const slice = /^\[(-?\d*):(-?\d*)\]/.exec(text);
  if (slice !== null) {
    const [whole, start = "", end = ""] = slice;
    const step: Step = { do: "slice", start: Number(start), end: end === "" ? undefined : Number(end) };
    return { step, length: whole.length };
  }
  return text.startsWith("[*]") ? { step: { do: "all" }, length: 3 } : undefined;
}

function follow(value: Json, step: Step): readonly Json[] {
  switch (step.do) {
    case "field": {
      const found = at(value, step.name);
      return found === undefined ? [] : [found];
    }
    case "index": {
      const found = isList(value) ? value.at(step.index) : undefined;
      return found === undefined ? [] : [found];
    }
    case "slice":
      return isList(value) ? value.slice(step.start, step.end) : [];
    case "all":
      return isList(value) ? value : isObject(value) ? Object.values(value) : [];
  }
}

/** The plain fields of a path such as `.spec.replicas`. */
export function fieldsOfPath(path: string): string[] {
  return path.split(".").slice(1);
}
