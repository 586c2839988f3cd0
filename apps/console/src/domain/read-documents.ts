import { Validator, type OutputUnit } from "@cfworker/json-schema";
import { isMap, isNode, LineCounter, parseAllDocuments, type Document } from "yaml";

/** A problem at a position; lines and columns count from 1. */
export type Finding = { readonly line: number; readonly column: number; readonly message: string };

export type ReadDocument = {
  readonly kind: string;
  readonly name: string;
  readonly namespace: string;
  readonly value: unknown;
  /** Whether the console has a schema of the kind. */
  readonly hasSchema: boolean;
  /** Empty if the document fits its schema, or its kind has none. */
  readonly findings: readonly Finding[];
};

/** Maximum characters of a text that is edited and checked. */
export const MAX_CHARACTERS = 1_048_576;
const MAX_FINDINGS = 20;
/** Maximum aliases, because they multiply the content of a document. */
const MAX_ALIASES = 1000;
/** Keywords whose findings only summarise findings about parts of the value. */
const SUMMARIES: ReadonlySet<string> = new Set([
  "properties",
  "items",
  "additionalProperties",
  "allOf",
  "if",
  "then",
  "else",
]);

/** Reads the documents of a YAML text, each checked against the schema of its kind. Never throws. */
export function readDocuments(text: string, schemas: Readonly<Record<string, object>>): readonly ReadDocument[] {
  if (text.length > MAX_CHARACTERS) {
    const message = `the text has ${text.length} characters; ${MAX_CHARACTERS} at most are read`;
    return [
      {
        kind: "",
        name: "",
        namespace: "",
        value: undefined,
        hasSchema: false,
        findings: [{ line: 1, column: 1, message }],
      },
    ];
  }
  const lines = new LineCounter();
  const documents = parseAllDocuments(text, { lineCounter: lines, prettyErrors: false, stringKeys: true, merge: true });
  if (!Array.isArray(documents)) return [];
  return documents
    .filter(({ contents, errors }) => contents !== null || errors.length > 0)
    .map((document) => readDocument(document, lines, schemas));
}

function readDocument(
  document: Document.Parsed,
  lines: LineCounter,
  schemas: Readonly<Record<string, object>>,
): ReadDocument {
  const at = (offset: number, message: string): Finding => {
    const { line, col } = lines.linePos(offset);
    return { line: Math.max(1, line), column: Math.max(1, col), message };
  };
  const wrong = document.errors.map(({ pos, message }) => at(pos[0], `not valid YAML: ${message}`));
  const value = wrong.length > 0 ? undefined : toPlainData(document);
  const { kind, metadata } = fieldsOf(value);
  const { name, generateName, namespace } = fieldsOf(metadata);
  const text = (each: unknown): string => (typeof each === "string" ? each : "");
  const schema = schemas[text(kind)];
  const named = { kind: text(kind), name: text(name) || text(generateName), namespace: text(namespace) };
  const about = { ...named, value, hasSchema: schema !== undefined };
  if (wrong.length > 0) return { ...about, findings: wrong.slice(0, MAX_FINDINGS) };
  if (typeof value === "string" || about.kind === "")
    return { ...about, findings: [at(document.range[0], typeof value === "string" ? value : "lacks kind")] };
  if (schema === undefined) return { ...about, findings: [] };
  const { errors } = new Validator(schema, "2020-12", false).validate(value);
  const findings = errors
    // The finding about all alternatives states what each one lacks.
    .filter(({ keyword, keywordLocation }) => !SUMMARIES.has(keyword) && !/\/(oneOf|anyOf)\/\d/.test(keywordLocation))
    .map((error) => at(offsetOf(document, error), describeError(error, errors, { value, schema })));
  const unique = new Map(findings.map((each) => [`${each.line} ${each.message}`, each]));
  return { ...about, findings: [...unique.values()].slice(0, MAX_FINDINGS) };
}

/** Returns the document as data, or the reason as text if it cannot be converted. */
function toPlainData(document: Document.Parsed): unknown {
  try {
    const value: unknown = document.toJS({ maxAliasCount: MAX_ALIASES });
    return typeof value === "object" && value !== null && !Array.isArray(value) ? value : "a mapping is needed";
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? (value as Readonly<Record<string, unknown>>) : {};
}

function pathOf({ instanceLocation }: OutputUnit): readonly string[] {
  const parts = instanceLocation.split("/").slice(1);
  return parts.map((part) => decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~"));
}

/** Returns the offset of the value, or of the nearest part of the document around it. */
function offsetOf(document: Document.Parsed, error: OutputUnit): number {
  const path = pathOf(error);
  const { contents } = document;
  for (let length = path.length; length > 0; length -= 1) {
    const part = path[length - 1];
    const around: unknown = length === 1 ? contents : document.getIn(path.slice(0, length - 1), true);
    const key = isMap(around) ? around.items.find((pair) => String(pair.key) === part)?.key : undefined;
    if (isNode(key) && key.range) return key.range[0];
    const node: unknown = document.getIn(path.slice(0, length), true);
    if (isNode(node) && node.range) return node.range[0];
  }
  return document.range[0];
}

type Checked = { readonly value: unknown; readonly schema: object };

function describeError(error: OutputUnit, all: readonly OutputUnit[], { value, schema }: Checked): string {
  const path = pathOf(error);
  const field = path.map((part) => (/^\d+$/.test(part) ? `[${part}]` : `.${part}`)).join("");
  const where = field === "" ? "the document" : field.slice(field.startsWith(".") ? 1 : 0);
  const missing = missingOf(error);
  if (missing !== undefined) return `${where} lacks ${missing}`;
  if (error.keyword === "false") return `${where} is an unknown field`;
  if (error.keyword === "oneOf") {
    const inside = all.filter(({ keywordLocation }) => keywordLocation.startsWith(`${error.keywordLocation}/`));
    const names = inside.map(missingOf).filter((name) => name !== undefined);
    return names.length > 0
      ? `${where} lacks one of ${names.join(", ")}`
      : `${where} must have exactly one of its forms`;
  }
  if (error.keyword === "pattern") {
    const { pattern, description = "" } = fieldsOf(follow(schema, error.keywordLocation.split("/").slice(1, -1)));
    return `${where}: "${String(follow(value, path))}" does not match ${String(pattern)}. ${String(description)}`.trimEnd();
  }
  return `${where}: ${error.error}`;
}

/** Returns the part of a value at a path; undefined if it is missing. */
function follow(value: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>((part, key) => fieldsOf(part)[key], value);
}

function missingOf({ keyword, error }: OutputUnit): string | undefined {
  return keyword === "required" ? /required property "(.*)"/.exec(error)?.[1] : undefined;
}
