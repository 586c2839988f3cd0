import { Environment, Optional } from "@marcbachmann/cel-js";
import { Duration } from "@marcbachmann/cel-js/evaluator";
import { checkLabel, checkLabelKey, checkLabelValue, checkServiceName, checkSubdomain } from "../names.ts";
import { FORMATS } from "./formats.ts";
import { compilePattern } from "./pattern.ts";
import { addAddresses } from "./rule-addresses.ts";
import { addQuantities } from "./rule-quantity.ts";
import { sameValue } from "./rule-types.ts";

/** CEL with what Kubernetes adds to it. To be cloned for each schema. */
export function ruleEnvironment(): Environment {
  const environment = new Environment({
    enableOptionalTypes: true,
    homogeneousAggregateLiterals: false,
    limits: { maxAstNodes: 100_000 },
  });
  addLists(environment);
  addTexts(environment);
  addSets(environment);
  addFormats(environment);
  addQuantities(environment);
  addAddresses(environment);
  return environment;
}

type Ordered = bigint | number | string | boolean | Date | Duration;

function addLists(environment: Environment): void {
  const smallest = (list: readonly Ordered[], sign: 1 | -1): Ordered => {
    const found = list.toSorted((a, b) => sign * compare(a, b))[0];
    if (found === undefined) throw new Error("min/max called on empty list");
    return found;
  };
  environment
    .registerFunction("list.isSorted(): bool", (list: readonly Ordered[]) =>
      list.every((item, index) => index === 0 || compare(list[index - 1] ?? item, item) <= 0),
    )
    .registerFunction("list<A>.min(): A", (list: readonly Ordered[]) => smallest(list, 1))
    .registerFunction("list<A>.max(): A", (list: readonly Ordered[]) => smallest(list, -1))
    .registerFunction("list<A>.sum(): A", (list: readonly (bigint | number)[]) =>
      list.slice(1).reduce<bigint | number>((sum, item) => add(sum, item), list[0] ?? 0n),
    )
    .registerFunction("list.indexOf(dyn): int", (list: readonly unknown[], item: unknown) =>
      BigInt(list.findIndex((one) => sameValue(one, item))),
    )
    .registerFunction("list.lastIndexOf(dyn): int", (list: readonly unknown[], item: unknown) =>
      BigInt(list.findLastIndex((one) => sameValue(one, item))),
    );
}

function compare(a: Ordered, b: Ordered): number {
  if (typeof a === "object" || typeof b === "object") return Number(a.valueOf()) - Number(b.valueOf());
  return a < b ? -1 : a > b ? 1 : 0;
}

function add(a: bigint | number, b: bigint | number): bigint | number {
  return typeof a === "bigint" && typeof b === "bigint" ? a + b : Number(a) + Number(b);
}

function addTexts(environment: Environment): void {
  const pattern = (text: string): RegExp => {
    const compiled = compilePattern(text);
    if (compiled === undefined) throw new Error(`error parsing regexp: ${text}`);
    return compiled;
  };
  const all = (text: string, expression: string, limit: bigint): string[] => {
    if (limit === 0n) return [];
    const found = [...text.matchAll(new RegExp(pattern(expression), "g"))].map(([match]) => match);
    return limit < 0n ? found : found.slice(0, Number(limit));
  };
  environment
    .registerFunction("string.find(string): string", (text: string, one: string) => pattern(one).exec(text)?.[0] ?? "")
    .registerFunction("string.findAll(string): list<string>", (text: string, one: string) => all(text, one, -1n))
    .registerFunction("string.findAll(string, int): list<string>", all)
    .registerFunction("string.charAt(int): string", (text: string, index: bigint) => {
      const position = Number(index);
      if (position < 0 || position > text.length) throw new Error(`index out of range: ${position}`);
      return text.charAt(position);
    })
    .registerFunction("string.reverse(): string", (text: string) => [...text].reverse().join(""))
    .registerFunction("string.replace(string, string): string", (text: string, from: string, to: string) =>
      text.replaceAll(from, () => to),
    )
    .registerFunction("string.replace(string, string, int): string", replaceSome)
    .registerFunction("string.format(list): string", (text: string, values: readonly unknown[]) => {
      let index = 0;
      return text.replace(/%(?:\.(\d+))?([sdfxXboe%])/g, (_whole, digits: string | undefined, verb: string) =>
        verb === "%" ? "%" : print(verb, values[index++], digits),
      );
    });
}

function replaceSome(text: string, from: string, to: string, limit: bigint): string {
  if (limit < 0n) return text.replaceAll(from, () => to);
  let left = Number(limit);
  return text.replaceAll(from, (found) => (left-- > 0 ? to : found));
}

function print(verb: string, value: unknown, digits: string | undefined): string {
  switch (verb) {
    case "f":
      return Number(value).toFixed(Number(digits ?? 6));
    case "e":
      return Number(value).toExponential(Number(digits ?? 6));
    case "x":
      return typeof value === "bigint" ? value.toString(16) : Buffer.from(String(value)).toString("hex");
    case "X":
      return print("x", value, digits).toUpperCase();
    case "b":
      return BigInt(Number(value)).toString(2);
    case "o":
      return BigInt(Number(value)).toString(8);
    default:
      return show(value);
  }
}

function show(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(show).join(", ")}]`;
  if (value instanceof Map) return `{${[...value].map(([key, one]) => `${show(key)}: ${show(one)}`).join(", ")}}`;
  if (value instanceof Date) return value.toISOString().replace(".000Z", "Z");
  if (value instanceof Duration) return `${value.valueOf() / 1000}s`;
  return String(value);
}

/** A name before functions, such as `sets.contains`: an object that has them. */
class SetFunctions {
  readonly prefix = "sets";
}
class FormatFunctions {
  readonly prefix = "format";
}
class Format {
  readonly check: (text: string) => string | undefined;
  constructor(check: (text: string) => string | undefined) {
    this.check = check;
  }
}

function addSets(environment: Environment): void {
  const holds = (list: readonly unknown[], item: unknown): boolean => list.some((one) => sameValue(one, item));
  const covers = (list: readonly unknown[], others: readonly unknown[]): boolean =>
    others.every((item) => holds(list, item));
  environment
    .registerType("kubernetes.Sets", { ctor: SetFunctions, fields: {} })
    .registerConstant("sets", "kubernetes.Sets", new SetFunctions())
    .registerFunction("kubernetes.Sets.contains(list, list): bool", (_self: unknown, a: unknown[], b: unknown[]) =>
      covers(a, b),
    )
    .registerFunction(
      "kubernetes.Sets.equivalent(list, list): bool",
      (_self: unknown, a: unknown[], b: unknown[]) => covers(a, b) && covers(b, a),
    )
    .registerFunction("kubernetes.Sets.intersects(list, list): bool", (_self: unknown, a: unknown[], b: unknown[]) =>
      b.some((item) => holds(a, item)),
    );
}

const NAMED_FORMATS: Readonly<Record<string, (text: string) => string | undefined>> = {
  dns1123Label: checkLabel,
  dns1123Subdomain: checkSubdomain,
  dns1035Label: checkServiceName,
  qualifiedName: checkLabelKey,
  labelValue: checkLabelValue,
  dns1123LabelPrefix: (text) => checkLabel(text.replace(/-$/, "a")),
  dns1123SubdomainPrefix: (text) => checkSubdomain(text.replace(/-$/, "a")),
  dns1035LabelPrefix: (text) => checkServiceName(text.replace(/-$/, "a")),
  ...Object.fromEntries(
    Object.entries({ uri: "uri", uuid: "uuid", byte: "byte", date: "date", datetime: "date-time" }).map(
      ([name, format]) => [name, (text: string) => (FORMATS[format]?.(text) === false ? `invalid ${name}` : undefined)],
    ),
  ),
};

/** `format.dns1123Label().validate(text)`: nothing, or what is wrong. */
function addFormats(environment: Environment): void {
  const problems = (format: Format, text: string): readonly string[] | undefined => {
    const problem = format.check(text);
    return problem === undefined ? undefined : [problem];
  };
  environment
    .registerType("kubernetes.Formats", { ctor: FormatFunctions, fields: {} })
    .registerType("kubernetes.NamedFormat", { ctor: Format, fields: {} })
    .registerConstant("format", "kubernetes.Formats", new FormatFunctions())
    .registerFunction(
      "kubernetes.NamedFormat.validate(string): optional<list<string>>",
      (format: Format, text: string) => {
        const found = problems(format, text);
        return found === undefined ? Optional.none() : Optional.of(found);
      },
    );
  for (const [name, check] of Object.entries(NAMED_FORMATS)) {
    environment.registerFunction(`kubernetes.Formats.${name}(): kubernetes.NamedFormat`, () => new Format(check));
  }
}
