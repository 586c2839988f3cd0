import type { IncomingMessage } from "node:http";
import { isList, isObject, type Json, type JsonObject } from "./json.ts";
import { badRequest, fail, FailureError, tooLarge, unsupportedMediaType } from "./status.ts";

/** etcd's limit, which the API server takes over. */
export const BODY_LIMIT_BYTES = 3 * 1024 * 1024;
/** A client that sends on after the refusal is read up to here, so that it sees the answer; then it is cut off. */
const DRAIN_LIMIT_BYTES = 4 * BODY_LIMIT_BYTES;
/** Deeper objects do not exist in the API, and each level costs stack. */
const DEPTH_LIMIT = 200;

/** The whole body. Fails with 413 above the limit. */
export function readBody(request: IncomingMessage): Promise<string> {
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
    request.once("end", () => resolve(Buffer.concat(chunks).toString("utf8")));
  });
}

/** Without parameters, in lower case; "" when the client does not say. */
export function mediaType(request: IncomingMessage): string {
  return (request.headers["content-type"] ?? "").split(";")[0]?.trim().toLowerCase() ?? "";
}

/** Bodies of objects are JSON; anything else is 415. */
export function requireJson(request: IncomingMessage): void {
  const type = mediaType(request);
  if (type !== "" && type !== "application/json" && type !== "*/*") fail(unsupportedMediaType(["application/json"]));
}

/** Fails with 400 for text that is no JSON, or nested deeper than anything in the API. */
export function parseJson(text: string, what: string): Json {
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

export function parseObject(text: string, kind: string): JsonObject {
  const what = `the object provided is unrecognized (must be of type ${kind}): couldn't get version/kind`;
  const parsed = parseJson(text, what);
  return isObject(parsed) ? parsed : fail(badRequest(`${what}; json parse error: an object is needed`));
}

/** JSON.parse gives nothing else; the check is for the type alone. */
function isJson(value: unknown): value is Json {
  return value === null || ["boolean", "number", "string"].includes(typeof value) || isList(value) || isObject(value);
}

/** Looks at the text, since walking the value would use the stack that is to be saved. */
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
