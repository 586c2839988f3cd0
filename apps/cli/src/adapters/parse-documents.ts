import {
  Composer,
  CST,
  isAlias,
  isMap,
  isNode,
  isScalar,
  isSeq,
  LineCounter,
  Parser,
  type Document,
  type Node,
  type Pair,
  type ParsedNode,
  type YAMLError,
  type YAMLMap,
} from "yaml";
import type { Finding } from "@muster/documents";
import { toFields, type ReadDocument } from "../domain/read-document.ts";
import { shortenWords } from "../domain/shorten.ts";

/** Maximum size of a file that is read as YAML. */
export const MAX_FILE_BYTES = 1024 * 1024;
/** Maximum documents of one file. */
export const MAX_DOCUMENTS = 100;
/** Maximum aliases of a document, because they multiply its content. */
const MAX_ALIASES = 1000;
/** Maximum depth of mappings and lists in one document. */
const MAX_DEPTH = 100;
/** Maximum syntax errors that are reported of one document, because the first ones cause the rest. */
const MAX_SYNTAX_ERRORS = 3;

/** Lines and columns count from 1. */
export type DocumentPlace = { readonly file: string; readonly line: number; readonly column: number };

/** A problem of a file, with its position. */
export type DocumentProblem = DocumentPlace & { readonly message: string };

/** The value of a document, with the position of its name. */
export type PlacedDocument<Value> = {
  readonly value: Value;
  readonly place: DocumentPlace;
  /** Returns the position of a field such as `spec.components[0].name`, or of the nearest existing part of the document around it. */
  readonly placeOf: (field: string) => DocumentPlace;
};

/** The valid documents, and the problems of the others. A caller reports the problems before it acts. */
export type ParsedDocuments<Value> = {
  readonly documents: readonly PlacedDocument<Value>[];
  readonly problems: readonly DocumentProblem[];
};

/** Reads the documents of one YAML text, each by `read`. Reports every problem of the text, in the order of lines. Never throws. */
export function parseDocuments<Value>(
  file: string,
  text: string,
  read: (document: unknown) => ReadDocument<Value>,
): ParsedDocuments<Value> {
  // Reading stops shortly after the limit, so the size of the file is not known.
  if (Buffer.byteLength(text) > MAX_FILE_BYTES)
    return onlyProblem(file, `the file has more than ${MAX_FILE_BYTES} bytes, the limit for one file`);
  if (text.includes("\0")) return onlyProblem(file, "the file is not text; a YAML file is needed");
  const lines = new LineCounter();
  const tokens = [...new Parser(lines.addNewLine).parse(text)];
  const count = tokens.filter((token) => token.type === "document").length;
  if (count > MAX_DOCUMENTS)
    return onlyProblem(file, `the file has ${count} documents; ${MAX_DOCUMENTS} at most are read`);

  const documents: PlacedDocument<Value>[] = [];
  const problems: DocumentProblem[] = [];
  const placeOf = (offset: number): DocumentPlace => {
    const { line, col } = lines.linePos(offset);
    return { file, line: Math.max(1, line), column: Math.max(1, col) };
  };
  const report = (offset: number, message: string): void => {
    problems.push({ ...placeOf(offset), message });
  };
  const tooDeep = tokens.find((token) => nestingOf(token) > MAX_DEPTH);
  if (tooDeep !== undefined) {
    report(tooDeep.offset, `the document is nested deeper than ${MAX_DEPTH} levels`);
    return { documents, problems };
  }
  const composer = new Composer<ParsedNode, true>({
    lineCounter: lines,
    prettyErrors: false,
    stringKeys: true,
    merge: true,
  });
  for (const [index, yamlDocument] of [...composer.compose(tokens, false, text.length)].entries()) {
    if (isEmpty(yamlDocument)) continue;
    const title = count > 1 ? `document ${index + 1}` : "the document";
    const found = readYamlDocument(yamlDocument, read, title, report);
    if (found === undefined) continue;
    const at = { path: ["metadata", "name"], at: "value" } as const;
    const placeOfField = (field: string): DocumentPlace =>
      placeOf(offsetOf(yamlDocument, { path: readPath(field), at: "value" }));
    documents.push({ ...found, place: placeOf(offsetOf(yamlDocument, at)), placeOf: placeOfField });
  }
  if (documents.length === 0 && problems.length === 0) report(0, "the file contains no document");
  problems.sort((a, b) => a.line - b.line || a.column - b.column);
  return { documents, problems };
}

/** `file:line:column: message`, the form that editors and terminals make clickable. */
export function describeProblem(problem: DocumentProblem): string {
  return `${describePlace(problem)}: ${shortenWords(problem.message)}`;
}

export function describePlace({ file, line, column }: DocumentPlace): string {
  return `${file}:${line}:${column}`;
}

type Report = (offset: number, message: string) => void;

function readYamlDocument<Value>(
  document: Document.Parsed,
  read: (document: unknown) => ReadDocument<Value>,
  title: string,
  report: Report,
): { readonly value: Value } | undefined {
  const troubles: readonly YAMLError[] = [...document.errors, ...document.warnings];
  const inFields = troubles.filter(({ code }) => code === "DUPLICATE_KEY");
  const inText = troubles.filter(({ code }) => code !== "DUPLICATE_KEY").slice(0, MAX_SYNTAX_ERRORS);
  for (const trouble of [...inText, ...inFields]) report(trouble.pos[0], describeYamlError(trouble));
  if (troubles.length > 0) return undefined;
  let plain: unknown;
  try {
    plain = document.toJS({ maxAliasCount: MAX_ALIASES });
  } catch (error) {
    // The library throws for aliases without an anchor, and for more aliases than allowed.
    report(document.range[0], error instanceof Error ? error.message : String(error));
    return undefined;
  }
  const found = read(plain);
  if (found.ok) return found;
  for (const finding of found.findings)
    report(offsetOf(document, finding), describeFinding(finding, title + named(plain)));
  return undefined;
}

function isEmpty(document: Document.Parsed): boolean {
  const { contents } = document;
  const nothing = contents === null || (isScalar(contents) && contents.value === null && contents.source === "");
  return nothing && document.errors.length === 0;
}

function describeYamlError(error: YAMLError): string {
  if (error.code === "DUPLICATE_KEY") return "this field is given twice";
  if (error.code === "TAB_AS_INDENT") return "a tab cannot indent; use spaces";
  return `not valid YAML: ${error.message}`;
}

function describeFinding(finding: Finding, title: string): string {
  return finding.path.length === 0 ? `${title} ${finding.message}` : `${pathText(finding)}: ${finding.message}`;
}

/** Returns ` (Job train)`, as far as the document states kind and name. */
function named(document: unknown): string {
  const { kind, metadata } = toFields(document);
  const { name, generateName } = toFields(metadata);
  const words = [kind, name ?? generateName].filter((word) => typeof word === "string" && word !== "");
  return words.length === 0 ? "" : ` (${words.join(" ")})`;
}

/** `spec.components[2].pool`. For an unknown field it is the mapping around the field, because the message names the field. */
function pathText({ path, at }: Finding): string {
  const shown = at === "key" ? path.slice(0, -1) : path;
  const text = shown.map((part) => (typeof part === "number" ? `[${part}]` : `.${part}`)).join("");
  return text === "" ? "the document" : text.replace(/^\./, "");
}

function readPath(field: string): Finding["path"] {
  const parts = field.split(/[.[\]]/).filter((part) => part !== "");
  return parts.map((part) => (/^\d+$/.test(part) ? Number(part) : part));
}

/** Returns the offset of the field's name or value; if the field is missing, of the nearest existing part of its path. */
function offsetOf(document: Document.Parsed, { path, at }: Pick<Finding, "path" | "at">): number {
  let node: Node | null = document.contents;
  let offset = startOf(node, document.range[0]);
  for (const [index, part] of path.entries()) {
    const here: Node | undefined = resolveAlias(document, node);
    const last = index === path.length - 1;
    if (isMap(here)) {
      const pair = findPair(document, here, String(part));
      if (pair === undefined) return offset;
      const keyOffset = startOf(pair.key, offset);
      node = isNode(pair.value) ? pair.value : null;
      offset = last && at !== "value" ? keyOffset : startOf(isEmptyScalar(node) ? pair.key : node, keyOffset);
    } else if (isSeq(here)) {
      const item: unknown = here.items[Number(part)];
      node = isNode(item) ? item : null;
      offset = startOf(node, offset);
    } else return offset;
  }
  return offset;
}

/** Finds the field in a mapping, or in a mapping merged into it with `<<`. */
function findPair(document: Document.Parsed, map: YAMLMap, key: string): Pair | undefined {
  const direct = map.items.find((pair) => keyText(pair) === key);
  if (direct !== undefined) return direct;
  for (const pair of map.items) {
    if (keyText(pair) !== "<<" || !isNode(pair.value)) continue;
    const merged = resolveAlias(document, pair.value);
    const maps = isSeq(merged)
      ? merged.items.map((item) => (isNode(item) ? resolveAlias(document, item) : undefined))
      : [merged];
    for (const each of maps) {
      const found = isMap(each) && each !== map ? each.items.find((inner) => keyText(inner) === key) : undefined;
      if (found !== undefined) return found;
    }
  }
  return undefined;
}

function resolveAlias(document: Document.Parsed, node: Node | null): Node | undefined {
  if (!isAlias(node)) return node ?? undefined;
  return node.resolve(document);
}

function keyText(pair: Pair): string {
  return isScalar(pair.key) ? String(pair.key.value) : String(pair.key);
}

function isEmptyScalar(node: Node | null): boolean {
  return node === null || (isScalar(node) && node.source === "");
}

function startOf(node: unknown, otherwise: number): number {
  return isNode(node) && node.range ? node.range[0] : otherwise;
}

/** Counts levels of nesting without recursion. Composing recurses once per level, and a text of brackets would take it minutes. */
function nestingOf(document: CST.Token): number {
  let deepest = 0;
  const open: { token: CST.Token; depth: number }[] = [{ token: document, depth: 0 }];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { token, depth } = next;
    deepest = Math.max(deepest, depth);
    const children = CST.isCollection(token)
      ? token.items.flatMap((item) => [item.key, item.value])
      : [token.type === "document" ? token.value : undefined];
    for (const child of children) if (child) open.push({ token: child, depth: depth + 1 });
  }
  return deepest;
}

function onlyProblem(file: string, message: string): ParsedDocuments<never> {
  return { documents: [], problems: [{ file, line: 1, column: 1, message }] };
}
