import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import ts from "typescript";

/** An environment variable, from the source that reads it. */
export type Variable = {
  readonly name: string;
  /** Undefined: none. */
  readonly fallback: string | undefined;
  /** Allowed values; undefined: any text. */
  readonly values: string | undefined;
  readonly meaning: string;
};

type Source = { readonly path: string; readonly file: ts.SourceFile };
type Value = string | number | boolean | readonly Value[] | { readonly [name: string]: Value | undefined } | undefined;

const LIBS = join(import.meta.dirname, "../../../libs");
const NAME = /^[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*$/;
/** Functions of this form read one variable, such as `readUnit(read, "cru", "PROVISION_CAPACITY_CRU")`. */
const READER = /^read[A-Z]?\w*$/;

/**
 * Lists the variables that the file reads: `read.integer("NAME", ...)`, a function that gets the reader and a name, or `env["NAME"]`. The doc comment above
 * the line is the meaning; its tag `@default` replaces the fallback of the code. Throws where a variable has no meaning.
 */
export function readVariables(path: string): Variable[] {
  const source = parse(path);
  const found = new Map<string, Variable>();
  const visit = (node: ts.Node): void => {
    const read = findRead(node);
    if (read !== undefined) {
      const before = found.get(read.name);
      found.set(read.name, merge(before, buildVariable(source, node, read)));
    }
    node.forEachChild(visit);
  };
  visit(source.file);
  const silent = [...found.values()].filter(({ meaning }) => meaning === "").map(({ name }) => name);
  if (silent.length > 0)
    throw new Error(`${path}: a doc comment is missing where these are read: ${silent.join(", ")}`);
  return [...found.values()];
}

function parse(path: string): Source {
  return { path, file: ts.createSourceFile(path, readFileSync(path, "utf8"), ts.ScriptTarget.Latest, true) };
}

type Read = { readonly name: string; readonly method: string; readonly options: ts.Expression | undefined };

function findRead(node: ts.Node): Read | undefined {
  if (ts.isElementAccessExpression(node)) {
    const name = node.argumentExpression;
    const isEnv = ts.isIdentifier(node.expression) && node.expression.text === "env";
    return isEnv && ts.isStringLiteral(name) ? { name: name.text, method: "env", options: undefined } : undefined;
  }
  if (!ts.isCallExpression(node)) return undefined;
  const { expression, arguments: given } = node;
  if (ts.isPropertyAccessExpression(expression) && expression.expression.getText() === "read")
    return named(given[0], { method: expression.name.text, options: given[1], fallback: given[2] });
  const isReader = ts.isIdentifier(expression) && READER.test(expression.text) && given[0]?.getText() === "read";
  return isReader ? named(given.at(-1), { method: "integer", options: undefined }) : undefined;
}

type Given = Omit<Read, "name"> & { readonly fallback?: ts.Expression | undefined };

function named(name: ts.Expression | undefined, { method, options, fallback }: Given): Read | undefined {
  if (name === undefined || !ts.isStringLiteral(name) || !NAME.test(name.text)) return undefined;
  return { name: name.text, method: fallback === undefined ? method : `${method}:${fallback.getText()}`, options };
}

function buildVariable(source: Source, node: ts.Node, { name, method, options }: Read): Variable {
  const { text, fallback: tagged } = readDoc(source, node);
  const value = options === undefined ? undefined : evaluate(source, options);
  const fields = isRecord(value) ? value : {};
  const [kind = "", word] = method.split(":");
  const own = { text: value, url: value, flag: value, oneOf: word?.replaceAll('"', "") }[kind] ?? fields["fallback"];
  const { min, max } = fields;
  const range = typeof min === "number" && typeof max === "number" ? `${min} to ${max}` : undefined;
  const words =
    kind === "oneOf" && Array.isArray(value) ? value.map((each) => `\`${String(each)}\``).join(", ") : range;
  const values = kind === "flag" ? "`true`, `false`" : words;
  const fallback =
    tagged ??
    (typeof own === "string" || typeof own === "number" || typeof own === "boolean" ? `\`${own}\`` : undefined);
  return { name, fallback, values, meaning: text };
}

/** A variable may be read twice: to see whether it is set, and for its value. */
function merge(before: Variable | undefined, next: Variable): Variable {
  if (before === undefined) return next;
  const { name } = next;
  if (before.meaning !== "" && next.meaning !== "" && before.meaning !== next.meaning)
    throw new Error(`${name} has two meanings: ${before.meaning} / ${next.meaning}`);
  return {
    name,
    fallback: before.fallback ?? next.fallback,
    values: before.values ?? next.values,
    meaning: before.meaning === "" ? next.meaning : before.meaning,
  };
}

/** The doc comment above the line that the property or statement around the node begins on. */
function readDoc({ file }: Source, node: ts.Node): { readonly text: string; readonly fallback: string | undefined } {
  const lineOf = (each: ts.Node): number => file.getLineAndCharacterOfPosition(each.getStart()).line;
  let owner = node;
  let comment: string | undefined;
  while (comment === undefined && !ts.isSourceFile(owner)) {
    if (isOwner(owner)) {
      const ranges = ts.getLeadingCommentRanges(file.text, owner.getFullStart()) ?? [];
      comment = ranges.map(({ pos, end }) => file.text.slice(pos, end)).findLast((text) => text.startsWith("/**"));
      if (lineOf(owner.parent) !== lineOf(owner)) break;
    }
    owner = owner.parent;
  }
  const [text = "", fallback] = (comment ?? "")
    .slice(3, -2)
    .replaceAll(/^\s*\* ?/gm, "")
    .split("@default");
  const plain = (part: string): string => part.replaceAll(/\s+/g, " ").trim();
  return { text: plain(text), fallback: fallback === undefined ? undefined : plain(fallback) };
}

function isOwner(node: ts.Node): boolean {
  return ts.isPropertyAssignment(node) || ts.isSpreadAssignment(node) || ts.isStatement(node);
}

/** Evaluates literals, arithmetic and constants of the file and its imports; undefined: none of these. */
function evaluate(source: Source, node: ts.Expression): Value {
  if (ts.isAsExpression(node) || ts.isParenthesizedExpression(node) || ts.isSatisfiesExpression(node))
    return evaluate(source, node.expression);
  if (ts.isStringLiteral(node)) return node.text;
  if (ts.isNumericLiteral(node)) return Number(node.text);
  if (node.kind === ts.SyntaxKind.TrueKeyword || node.kind === ts.SyntaxKind.FalseKeyword)
    return node.kind === ts.SyntaxKind.TrueKeyword;
  if (ts.isArrayLiteralExpression(node)) return node.elements.map((element) => evaluate(source, element));
  if (ts.isBinaryExpression(node)) return calculate(source, node);
  if (ts.isPropertyAccessExpression(node)) {
    if (node.getText() === "Number.MAX_SAFE_INTEGER") return Number.MAX_SAFE_INTEGER;
    const whole = evaluate(source, node.expression);
    return isRecord(whole) ? whole[node.name.text] : undefined;
  }
  if (ts.isObjectLiteralExpression(node)) return evaluateObject(source, node);
  return ts.isIdentifier(node) ? resolveConstant(source, node.text) : undefined;
}

function calculate(source: Source, { left, right, operatorToken }: ts.BinaryExpression): Value {
  const [first, second] = [evaluate(source, left), evaluate(source, right)];
  if (typeof first !== "number" || typeof second !== "number") return undefined;
  if (operatorToken.kind === ts.SyntaxKind.AsteriskToken) return first * second;
  return operatorToken.kind === ts.SyntaxKind.AsteriskAsteriskToken ? first ** second : undefined;
}

function evaluateObject(source: Source, node: ts.ObjectLiteralExpression): Value {
  const fields: Record<string, Value> = {};
  for (const property of node.properties) {
    if (ts.isSpreadAssignment(property)) {
      const spread = evaluate(source, property.expression);
      if (isRecord(spread)) Object.assign(fields, spread);
    } else if (ts.isPropertyAssignment(property) && ts.isIdentifier(property.name))
      fields[property.name.text] = evaluate(source, property.initializer);
  }
  return fields;
}

function resolveConstant(source: Source, name: string): Value {
  for (const statement of source.file.statements) {
    if (ts.isVariableStatement(statement)) {
      const declared = statement.declarationList.declarations.find((each) => each.name.getText() === name);
      if (declared?.initializer !== undefined) return evaluate(source, declared.initializer);
    }
    const from = findImport(statement, name);
    if (from !== undefined) return resolveConstant(parse(resolveFile(source.path, from)), name);
  }
  return undefined;
}

/** The module of the import or export of the name. */
function findImport(statement: ts.Statement, name: string): string | undefined {
  if (!ts.isImportDeclaration(statement) && !ts.isExportDeclaration(statement)) return undefined;
  const list = ts.isImportDeclaration(statement) ? statement.importClause?.namedBindings : statement.exportClause;
  if (list === undefined || (!ts.isNamedImports(list) && !ts.isNamedExports(list))) return undefined;
  const isNamed = list.elements.some((each) => each.name.text === name);
  const { moduleSpecifier: module } = statement;
  return isNamed && module !== undefined && ts.isStringLiteral(module) ? module.text : undefined;
}

function resolveFile(importer: string, module: string): string {
  if (module.startsWith(".")) return join(dirname(importer), module);
  const index = join(LIBS, module.replace("@muster/", ""), "src/index.ts");
  if (!existsSync(index)) throw new Error(`${importer}: constants of ${module} cannot be read`);
  return index;
}

function isRecord(value: Value): value is { readonly [name: string]: Value | undefined } {
  return typeof value === "object" && !Array.isArray(value);
}
