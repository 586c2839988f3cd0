import type { IncomingMessage } from "node:http";
import { parse } from "yaml";
import { isList, isObject, type JsonValue, type JsonObject } from "./json.ts";
import { decodeProtobuf } from "./protobuf.ts";
import { badRequest, fail, FailureError, tooLarge, unsupportedMediaType } from "./status.ts";

/** etcd's limit, which kube-apiserver uses as well. */
export const BODY_LIMIT_BYTES = 3 * 1024 * 1024;
/** A client that continues to send after a refusal is read up to this size, so that it receives the answer; then the connection is closed. */
const DRAIN_LIMIT_BYTES = 4 * BODY_LIMIT_BYTES;
/** No object of the API is nested deeper, and each level costs stack. */
const DEPTH_LIMIT = 200;

/** Reads the whole body as text. Fails with 413 above the limit. */
export async function readBody(request: IncomingMessage): Promise<string> {
  return (await readBytes(request)).toString("utf8");
}

function readBytes(request: IncomingMessage): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    request.on("data", (chunk: Buffer) => {
      size += chunk.length;
      if (size <= BODY_LIMIT_BYTES) {
        chunks.push(chunk);
        return;
      }
      chunks.length = 0;
      reject(new FailureError(tooLarge(BODY_LIMIT_BYTES)));
      if (size > DRAIN_LIMIT_BYTES) request.destroy();
    });
    request.once("error", reject);
    request.once("close", () => reject(new Error("the client went away before its body was complete")));
    request.once("end", () => resolve(Buffer.concat(chunks)));
  });
}

/** Returns the media type without parameters, in lower case; "" if the client sets none. */
export function parseMediaType(request: IncomingMessage): string {
  return (request.headers["content-type"] ?? "").split(";")[0]?.trim().toLowerCase() ?? "";
}

const PROTOBUF = "application/vnd.kubernetes.protobuf";
const YAML = "application/yaml";
const OBJECT_TYPES = ["application/json", YAML, PROTOBUF];

/** Fails with 415 for a media type that the server does not read. */
export function requireObjectType(request: IncomingMessage): void {
  const type = parseMediaType(request);
  if (type !== "" && type !== "*/*" && !OBJECT_TYPES.includes(type)) fail(unsupportedMediaType(OBJECT_TYPES));
}

/** The kind of a body that does not state one. */
type Expected = { readonly apiVersion: string; readonly kind: string };

/** Reads an object in any supported form. */
export async function readObject(request: IncomingMessage, expected: Expected): Promise<JsonObject> {
  requireObjectType(request);
  return parseAs(parseMediaType(request), await readBytes(request), expected);
}

/** Reads the options of a deletion; {} without a body. */
export async function readOptions(request: IncomingMessage): Promise<JsonObject> {
  const bytes = await readBytes(request);
  if (bytes.length === 0) return {};
  requireObjectType(request);
  return parseAs(parseMediaType(request), bytes, { apiVersion: "v1", kind: "DeleteOptions" });
}

function parseAs(type: string, bytes: Buffer, expected: Expected): JsonObject {
  if (type === PROTOBUF)
    return decodeProtobuf(bytes, expected) ?? fail(unsupportedMediaType(["application/json", YAML]));
  const what = `the object provided is unrecognized (must be of type ${expected.kind})`;
  const text = bytes.toString("utf8");
  if (type === YAML) {
    const parsed = parseYaml(text, `${what}: yaml`);
    return isObject(parsed) ? parsed : fail(badRequest(`${what}: yaml: an object is needed`));
  }
  const parsed = parseJson(text, `${what}: couldn't get version/kind`);
  return isObject(parsed)
    ? parsed
    : fail(badRequest(`${what}: couldn't get version/kind; json parse error: an object is needed`));
}

/** Fails with 400 for invalid YAML. Kubernetes reads YAML 1.1, where `yes` and `on` are booleans. */
export function parseYaml(text: string, what: string): JsonValue {
  let parsed: unknown;
  try {
    parsed = parse(text, {
      version: "1.1",
      customTags: (tags) => tags.filter((tag) => typeof tag === "string" || !tag.tag.endsWith(":timestamp")),
      maxAliasCount: YAML_ALIAS_LIMIT,
      logLevel: "error",
    });
  } catch (error) {
    return fail(badRequest(`${what}: ${error instanceof Error ? error.message : String(error)}`));
  }
  // Sets and binary values become JSON values.
  return parseJson(JSON.stringify(parsed ?? null), what);
}

const YAML_ALIAS_LIMIT = 100;

/** Fails with 400 for invalid JSON, or for JSON that is nested deeper than any object of the API. */
export function parseJson(text: string, what: string): JsonValue {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch (error) {
    return fail(badRequest(`${what}: json parse error: ${error instanceof Error ? error.message : String(error)}`));
  }
  if (!isJson(parsed)) return fail(badRequest(`${what}: json parse error: not JSON`));
  if (isDeeper(text, DEPTH_LIMIT)) return fail(badRequest(`${what}: json parse error: exceeded max depth`));
  return parsed;
}

/** JSON.parse returns nothing else; the check exists only for the type. */
function isJson(value: unknown): value is JsonValue {
  return value === null || ["boolean", "number", "string"].includes(typeof value) || isList(value) || isObject(value);
}

/** Scans the text, because walking the value would use the stack that this check protects. */
function isDeeper(text: string, limit: number): boolean {
  let depth = 0;
  let inText = false;
  for (let index = 0; index < text.length; index++) {
    const character = text[index];
    if (inText) {
      if (character === "\\") index += 1;
      else if (character === '"') inText = false;
    } else if (character === '"') inText = true;
    else if (character === "{" || character === "[") {
      depth += 1;
      if (depth > limit) return true;
    } else if (character === "}" || character === "]") depth -= 1;
  }
  return false;
}
