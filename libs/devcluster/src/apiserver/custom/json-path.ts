import { at, isList, isObject, type Json } from "../json.ts";

type Step =
  | { readonly do: "field"; readonly name: string }
  | { readonly do: "index"; readonly index: number }
  | { readonly do: "slice"; readonly start: number; readonly end: number | undefined }
  | { readonly do: "all" }
  | { readonly do: "filter"; readonly path: string; readonly operator: string; readonly value: Json };

/** The JSON paths of columns and of selectable fields: fields, indexes, slices such as `[-1:]`, `[*]`, and filters such as `[?(@.type=="Ready")]`. Undefined for a text that is none. */
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
  if (text.startsWith("[*]")) return { step: { do: "all" }, length: 3 };
  const filter = /^\[\?\(\s*@((?:\.[^\s=!<>)]+)*)\s*(?:(==|!=|<=|>=|<|>)\s*([^)]*?)\s*)?\)\]/.exec(text);
  if (filter === null) return undefined;
  const [whole, path = "", operator = "", value = ""] = filter;
  return { step: { do: "filter", path: path.slice(1), operator, value: literal(value) }, length: whole.length };
}

function literal(text: string): Json {
  const quoted = /^(["'])(.*)\1$/s.exec(text);
  if (quoted !== null) return quoted[2] ?? "";
  if (text === "true" || text === "false") return text === "true";
  return text !== "" && !Number.isNaN(Number(text)) ? Number(text) : text;
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
    case "filter":
      return isList(value) ? value.filter((item) => passes(item, step)) : [];
  }
}

function passes(item: Json, { path, operator, value }: Extract<Step, { do: "filter" }>): boolean {
  const found = at(item, ...path.split("."));
  switch (operator) {
    case "":
      return found !== undefined;
    case "==":
      return found === value;
    case "!=":
      return found !== undefined && found !== value;
    default:
      return (
        typeof found === typeof value &&
        found !== undefined &&
        found !== null &&
        value !== null &&
        ordered(operator, found, value)
      );
  }
}

function ordered(operator: string, a: Json, b: Json): boolean {
  if (a === null || b === null) return false;
  switch (operator) {
    case "<":
      return a < b;
    case "<=":
      return a <= b;
    case ">":
      return a > b;
    default:
      return a >= b;
  }
}

/** The plain fields of a path such as `.spec.replicas`. */
export function fieldsOfPath(path: string): string[] {
  return path.split(".").slice(1);
}

/** Whether a path goes through plain fields, beginning with one of that name. */
export function isFieldPath(path: string, first: string): boolean {
  return path.startsWith(`.${first}.`) && !/[[\]]/.test(path);
}
