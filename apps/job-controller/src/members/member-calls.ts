import { toKubeFault, type KubeCalls, type KubeObject } from "@muster/kube";
import type { MemberObject } from "../domain/ownership.ts";

/** Live calls on the pods or the services. They reject with errors that `toKubeFault` reads, or with defects. */
export type MemberCalls<M extends MemberObject> = {
  get(namespace: string, name: string): Promise<M>;
  /** Resolves with the object that was sent; the watch shows the fields that the server adds. */
  create(namespace: string, body: M): Promise<M>;
  /** A strategic merge patch, which can remove one owner reference from a list. */
  patch(namespace: string, name: string, patch: object): Promise<M>;
  /** Refused with 409 if the object of that name has another uid. */
  delete(namespace: string, name: string, preconditions: { readonly uid: string }): Promise<unknown>;
};

/** Returns the calls of one resource of the core group. */
export function makeMemberCalls<M extends MemberObject & KubeObject>(
  calls: Pick<KubeCalls, "get" | "create" | "patch" | "delete">,
  plural: "pods" | "services",
): MemberCalls<M> {
  const of = (namespace: string) => ({ apiVersion: "v1", plural, namespace });
  return {
    get: (namespace, name) => calls.get<M>(of(namespace), name),
    create: (namespace, body) => calls.create<M>(of(namespace), body, { isAnswerUnread: true }),
    patch: (namespace, name, body) => calls.patch<M>(of(namespace), name, { kind: "strategic", body }),
    delete: (namespace, name, preconditions) => calls.delete(of(namespace), name, { preconditions }),
  };
}

export function isNotFound(error: unknown): boolean {
  return toKubeFault(error)?.code === "not_found";
}

/** Whether the status is 422: the patch does not fit the existing object. */
export function isUnprocessable(error: unknown): boolean {
  return findErrorCode(error) === 422;
}

/** Whether the status is 409: the existing object is not the one that the request names. */
export function isConflict(error: unknown): boolean {
  return toKubeFault(error)?.code === "conflict";
}

/** Codes that mean a lost answer to a request that may have arrived. */
const ANSWER_LOST: ReadonlySet<unknown> = new Set([
  408,
  504,
  "ECONNRESET",
  "ECONNABORTED",
  "EPIPE",
  "ETIMEDOUT",
  "ERR_STREAM_PREMATURE_CLOSE",
  "UND_ERR_SOCKET",
  "UND_ERR_HEADERS_TIMEOUT",
  "UND_ERR_BODY_TIMEOUT",
  "UND_ERR_RES_CONTENT_LENGTH_MISMATCH",
]);
const LATE = new Set(["TimeoutError", "AbortError"]);
/** Limits the depth to which causes of an error are read. */
const MAX_DEPTH = 5;

/** True if the server may have carried out the request without an answer: after a timeout, or a broken connection. */
export function isOutcomeUnknown(error: unknown): boolean {
  let cause = error;
  for (let depth = 0; depth < MAX_DEPTH && cause instanceof Error; depth += 1) {
    if (LATE.has(cause.name) || ANSWER_LOST.has(findErrorCode(cause))) return true;
    cause = cause.cause;
  }
  return false;
}

function findErrorCode(error: unknown): unknown {
  return error instanceof Error && "code" in error ? error.code : undefined;
}
