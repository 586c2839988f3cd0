import { throwFault } from "@muster/faults";
import { checkLabelKey, checkLabelValue } from "./check-names.ts";

export type Requirement =
  | { readonly key: string; readonly operator: "in" | "notin"; readonly values: readonly string[] }
  | { readonly key: string; readonly operator: "exists" | "absent" }
  | { readonly key: string; readonly operator: "gt" | "lt"; readonly bound: number };

export type LabelSelector = readonly Requirement[];

/** The errors of a malformed selector: each function returns the problem with a key or a value, and `refuse` throws. */
type SelectorRules = {
  readonly checkKey: (key: string) => string | undefined;
  readonly checkValue: (value: string) => string | undefined;
  readonly refuse: (because: string) => never;
};

type Tokens = SelectorRules & { readonly peek: () => string; readonly next: () => string };

/** `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1`, as Kubernetes reads it. An empty text selects everything. */
export function parseLabelSelector(text: string, rules: SelectorRules): LabelSelector {
  const tokens = tokenize(text);
  const requirements: Requirement[] = [];
  let position = 0;
  const { refuse } = rules;
  const peek = (): string => tokens[position] ?? "";
  const next = (): string => tokens[position++] ?? "";
  const reading: Tokens = { ...rules, peek, next };
  if (tokens.length === 0) return requirements;
  for (;;) {
    requirements.push(parseRequirement(reading));
    const separator = next();
    if (separator === "") return requirements;
    if (separator !== ",") refuse(`found '${separator}', expected: ',' or 'end of string'`);
    if (peek() === "") refuse("found '', expected: identifier after ','");
  }
}

/** Parses a selector from a request or the configuration. Throws FaultError invalid_request, which names the field and the problem. */
export function readLabelSelector(field: string, text: string): LabelSelector {
  const refuse = (reason: string): never =>
    throwFault({ code: "invalid_request", field, reason: `"${text}" is not a label selector: ${reason}` });
  const reasonOf = (fault: ReturnType<typeof checkLabelKey>): string | undefined =>
    fault?.code === "invalid_request" ? fault.reason : undefined;
  return parseLabelSelector(text, {
    checkKey: (key) => reasonOf(checkLabelKey(field, key)),
    checkValue: (value) => reasonOf(checkLabelValue(field, value)),
    refuse,
  });
}

/** Whether labels meet every requirement. A label that is absent meets `!=` and `notin`, as in Kubernetes. */
export function matchesLabels(selector: LabelSelector, labels: Readonly<Record<string, unknown>>): boolean {
  return selector.every((requirement) => {
    const value = Object.hasOwn(labels, requirement.key) ? labels[requirement.key] : undefined;
    switch (requirement.operator) {
      case "in":
        return typeof value === "string" && requirement.values.includes(value);
      case "notin":
        return typeof value !== "string" || !requirement.values.includes(value);
      case "exists":
        return value !== undefined;
      case "absent":
        return value === undefined;
      case "gt":
        return isInteger(value) && Number(value) > requirement.bound;
      case "lt":
        return isInteger(value) && Number(value) < requirement.bound;
    }
  });
}

function isInteger(value: unknown): value is string {
  return typeof value === "string" && /^-?\d+$/.test(value);
}

function tokenize(text: string): string[] {
  return text.match(/==|!=|=|!|,|\(|\)|<|>|[^\s=!,()<>]+/g) ?? [];
}

function parseRequirement(tokens: Tokens): Requirement {
  const { peek, next } = tokens;
  if (peek() === "!") {
    next();
    return { key: identifier(tokens, next()), operator: "absent" };
  }
  const key = identifier(tokens, next());
  const operator = peek();
  switch (operator) {
    case "":
    case ",":
      return { key, operator: "exists" };
    case "=":
    case "==":
      next();
      return { key, operator: "in", values: [plainValue(tokens)] };
    case "!=":
      next();
      return { key, operator: "notin", values: [plainValue(tokens)] };
    case "in":
    case "notin":
      next();
      return { key, operator, values: valueList(tokens) };
    case ">":
    case "<":
      next();
      return { key, operator: operator === ">" ? "gt" : "lt", bound: bound(tokens, next()) };
    default:
      return tokens.refuse(`found '${operator}', expected: in, notin, =, ==, !=, gt, lt`);
  }
}

function valueList(tokens: Tokens): string[] {
  const { next, refuse } = tokens;
  const open = next();
  if (open !== "(") refuse(`found '${open}', expected: '('`);
  const values: string[] = [];
  for (;;) {
    values.push(plainValue(tokens));
    const separator = next();
    if (separator === ")") return values;
    const isNothing = separator === "" && values.length === 1 && values[0] === "";
    if (isNothing) refuse("found '', expected: ',', ')' or identifier");
    if (separator !== ",") refuse(`found '${separator}', expected: ',' or ')'`);
  }
}

/** Empty before a separator: `a=` selects the empty value. */
function plainValue({ peek, next, checkValue, refuse }: Tokens): string {
  if (peek() === "" || peek() === "," || peek() === ")") return "";
  const value = next();
  const problem = /^[=!(<>]/.test(value) ? `found '${value}', expected: identifier` : checkValue(value);
  return problem === undefined ? value : refuse(problem);
}

function identifier({ checkKey, refuse }: Tokens, token: string): string {
  if (token === "" || /^[=!,()<>]/.test(token)) refuse(`found '${token}', expected: !, identifier, or 'end of string'`);
  const problem = checkKey(token);
  return problem === undefined ? token : refuse(problem);
}

function bound({ refuse }: Tokens, token: string): number {
  if (/^-?\d+$/.test(token)) return Number(token);
  return refuse(`found '${token}', for 'Gt', 'Lt' operators, the value must be an integer`);
}
