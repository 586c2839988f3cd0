import type { JsonObject } from "./json.ts";

/** The names of a resource in errors of Kubernetes. */
export type ResourceName = { readonly group: string; readonly plural: string };
export type KindName = { readonly group: string; readonly kind: string };

export type Cause = { readonly reason?: string; readonly message: string; readonly field?: string };

export type Details = {
  readonly name?: string;
  readonly group?: string;
  readonly kind?: string;
  readonly uid?: string;
  readonly causes?: readonly Cause[];
  readonly retryAfterSeconds?: number;
};

/** An answer other than success, in the words of Kubernetes. */
export type Failure = {
  readonly code: number;
  readonly reason: string;
  readonly message: string;
  readonly details?: Details | undefined;
  /** `metadata.continue` of an expired list. */
  readonly continue?: string;
};

/** Crosses the throwing boundary between a decision deep in a request and its answer. */
export class FailureError extends Error {
  readonly failure: Failure;

  constructor(failure: Failure) {
    super(failure.message);
    this.name = "FailureError";
    this.failure = failure;
  }
}

export function fail(failure: Failure): never {
  throw new FailureError(failure);
}

/** The Status object that clients see. */
export function buildFailureStatus(failure: Failure): JsonObject {
  const { details } = failure;
  return {
    kind: "Status",
    apiVersion: "v1",
    metadata: failure.continue === undefined ? {} : { continue: failure.continue },
    status: "Failure",
    message: failure.message,
    ...(failure.reason === "" ? {} : { reason: failure.reason }),
    ...(details === undefined ? {} : { details: renderDetails(details) }),
    code: failure.code,
  };
}

export function buildSuccessStatus(details?: Details, code?: number): JsonObject {
  return {
    kind: "Status",
    apiVersion: "v1",
    metadata: {},
    status: "Success",
    ...(details === undefined ? {} : { details: renderDetails(details) }),
    ...(code === undefined ? {} : { code }),
  };
}

function renderDetails({ causes, ...details }: Details): JsonObject {
  const texts = Object.entries(details).filter(([, value]) => value !== "");
  return {
    ...Object.fromEntries(texts),
    ...(causes === undefined || causes.length === 0 ? {} : { causes: causes.map((cause) => ({ ...cause })) }),
  };
}

function qualified({ group, plural }: ResourceName): string {
  return group === "" ? plural : `${plural}.${group}`;
}

export function notFound(resource: ResourceName, name: string): Failure {
  return {
    code: 404,
    reason: "NotFound",
    message: `${qualified(resource)} "${name}" not found`,
    details: { name, group: resource.group, kind: resource.plural },
  };
}

/** The path or resource does not exist. */
export function noSuchResource(): Failure {
  const message =
    "the server could not find the requested resource; a Kubernetes cluster of your own (--kubeconfig) may have it";
  return { code: 404, reason: "NotFound", message, details: {} };
}

/** Refuses a request that only a real cluster serves. */
export function notServed(what: string): Failure {
  const message = `the embedded API server does not support ${what}: use a Kubernetes cluster of your own (--kubeconfig)`;
  return { code: 501, reason: "NotImplemented", message };
}

export function alreadyExists(resource: ResourceName, name: string, deleting = false): Failure {
  return {
    code: 409,
    reason: "AlreadyExists",
    message: `${deleting ? "object is being deleted: " : ""}${qualified(resource)} "${name}" already exists`,
    details: { name, group: resource.group, kind: resource.plural },
  };
}

export function conflict(resource: ResourceName, name: string, because: string): Failure {
  return {
    code: 409,
    reason: "Conflict",
    message: `Operation cannot be fulfilled on ${qualified(resource)} "${name}": ${because}`,
    details: { name, group: resource.group, kind: resource.plural },
  };
}

export const MODIFIED =
  "the object has been modified; please apply your changes to the latest version and try again" as const;

export function forbidden(resource: ResourceName, name: string, because: string, causes?: readonly Cause[]): Failure {
  return {
    code: 403,
    reason: "Forbidden",
    message: `${qualified(resource)} "${name}" is forbidden: ${because}`,
    details: { name, group: resource.group, kind: resource.plural, ...(causes === undefined ? {} : { causes }) },
  };
}

/** One thing wrong with a field. */
export type Problem = { readonly field: string; readonly reason: string; readonly message: string };

export function invalidValue(field: string, value: unknown, because: string): Problem {
  return { field, reason: "FieldValueInvalid", message: `Invalid value: ${printValue(value)}: ${because}` };
}

/** Prints a value as Go does: JSON with HTML escapes, except for plain texts. */
function printValue(value: unknown): string {
  const text = JSON.stringify(value);
  if (typeof value !== "object") return text;
  return text.replace(/[<>&]/g, (character) => `\\u00${character.charCodeAt(0).toString(16)}`);
}

export function required(field: string, because = ""): Problem {
  return {
    field,
    reason: "FieldValueRequired",
    message: because === "" ? "Required value" : `Required value: ${because}`,
  };
}

export function forbiddenValue(field: string, because: string): Problem {
  return { field, reason: "FieldValueForbidden", message: `Forbidden: ${because}` };
}

export function duplicate(field: string, value: string): Problem {
  return { field, reason: "FieldValueDuplicate", message: `Duplicate value: ${JSON.stringify(value)}` };
}

export function missingReference(field: string, value: string): Problem {
  return { field, reason: "FieldValueNotFound", message: `Not found: ${JSON.stringify(value)}` };
}

export function unsupported(field: string, value: unknown, supported: readonly string[]): Problem {
  const choice = supported.map((one) => JSON.stringify(one)).join(", ");
  const message = `Unsupported value: ${JSON.stringify(value)}: supported values: ${choice}`;
  return { field, reason: "FieldValueNotSupported", message };
}

export function invalid({ group, kind }: KindName, name: string, problems: readonly Problem[]): Failure {
  const lines = problems.map(({ field, message }) => `${field}: ${message}`);
  const qualifiedKind = group === "" ? kind : `${kind}.${group}`;
  return {
    code: 422,
    reason: "Invalid",
    message: `${qualifiedKind} "${name}" is invalid: ${lines.length === 1 ? lines.join("") : `[${lines.join(", ")}]`}`,
    details: { name, group, kind, causes: problems.map(({ reason, message, field }) => ({ reason, message, field })) },
  };
}

export function badRequest(message: string): Failure {
  return { code: 400, reason: "BadRequest", message };
}

export function unauthorized(): Failure {
  return { code: 401, reason: "Unauthorized", message: "Unauthorized" };
}

export function methodNotAllowed(): Failure {
  const message = "the server does not allow this method on the requested resource";
  return { code: 405, reason: "MethodNotAllowed", message, details: {} };
}

export function notAcceptable(): Failure {
  const message = "only the following media types are accepted: application/json";
  return { code: 406, reason: "NotAcceptable", message };
}

export function tooLarge(limitBytes: number): Failure {
  return {
    code: 413,
    reason: "RequestEntityTooLarge",
    message: `Request entity too large: limit is ${limitBytes}`,
  };
}

export function unsupportedMediaType(accepted: readonly string[]): Failure {
  const message = `the body of the request was in an unknown format - accepted media types include: ${accepted.join(", ")}`;
  return { code: 415, reason: "UnsupportedMediaType", message };
}

/** A resource version or a list that the server no longer remembers. */
export function expired(message: string, continueToken?: string): Failure {
  return {
    code: 410,
    reason: "Expired",
    message,
    ...(continueToken === undefined ? {} : { continue: continueToken }),
  };
}

export function tooManyRequests(message: string, retryAfterSeconds: number): Failure {
  return { code: 429, reason: "TooManyRequests", message, details: { retryAfterSeconds } };
}

export function internalError(message: string): Failure {
  const text = `Internal error occurred: ${message}`;
  return { code: 500, reason: "InternalError", message: text, details: { causes: [{ message }] } };
}

export function futureRevision(requested: number, current: number): Failure {
  return {
    code: 504,
    reason: "Timeout",
    message: `Timeout: Too large resource version: ${requested}, current: ${current}`,
    details: {
      causes: [{ reason: "ResourceVersionTooLarge", message: "Too large resource version" }],
      retryAfterSeconds: 1,
    },
  };
}
