import { ApiException } from "@kubernetes/client-node";
import { FaultError, type Fault } from "@muster/faults";
import { expect, it } from "vitest";
import { toKubeFault, getStatusMessage } from "./kube-fault.ts";

const named = (reason: string) => ({
  kind: "Status",
  reason,
  message: "explained",
  details: { kind: "pods", name: "p" },
});

it.each<[number, unknown, Fault]>([
  [404, named("NotFound"), { code: "not_found", kind: "pods", id: "p" }],
  [404, JSON.stringify(named("NotFound")), { code: "not_found", kind: "pods", id: "p" }],
  [404, "404 page not found", { code: "not_found", kind: "object", id: "" }],
  [409, named("AlreadyExists"), { code: "already_exists", kind: "pods", id: "p" }],
  [409, named("Conflict"), { code: "conflict", id: "pods p", expectedRevision: 0, actualRevision: 0 }],
  [410, named("Expired"), { code: "conflict", id: "resource version", expectedRevision: 0, actualRevision: 0 }],
  [400, named("BadRequest"), { code: "invalid_request", field: "request", reason: "explained" }],
  [403, named("Forbidden"), { code: "invalid_request", field: "permission", reason: "explained" }],
  [
    422,
    { message: "explained", details: { causes: [{ field: "spec.nodeName", message: "wrong" }] } },
    { code: "invalid_request", field: "spec.nodeName", reason: "explained" },
  ],
  [
    401,
    named("Unauthorized"),
    {
      code: "unavailable",
      dependency: "the API server, which does not take this service's credential (401),",
      retryAfterMs: 1000,
    },
  ],
  [429, { details: { retryAfterSeconds: 7 } }, { code: "unavailable", dependency: "kubernetes", retryAfterMs: 7000 }],
  [500, named("InternalError"), { code: "unavailable", dependency: "kubernetes", retryAfterMs: 1000 }],
  [504, "<html>", { code: "unavailable", dependency: "kubernetes", retryAfterMs: 1000 }],
])("reads status %i with body %o", (code, body, fault) => {
  expect(toKubeFault(new ApiException(code, "message", body, {}))).toEqual(fault);
});

it("prefers the Retry-After header to the body", () => {
  const body = { details: { retryAfterSeconds: 7 } };
  expect(toKubeFault(new ApiException(429, "", body, { "retry-after": "3" }))).toMatchObject({ retryAfterMs: 3000 });
});

it.each([
  ["a refused connection", Object.assign(new Error("x"), { code: "ECONNREFUSED" }), "unavailable"],
  [
    "the cause of a failed fetch",
    new TypeError("fetch failed", { cause: Object.assign(new Error("x"), { code: "ENOTFOUND" }) }),
    "unavailable",
  ],
  ["a timeout of undici", Object.assign(new Error("x"), { code: "UND_ERR_HEADERS_TIMEOUT" }), "unavailable"],
  ["a deadline of ours", new DOMException("late", "TimeoutError"), "unavailable"],
  [
    "a deadline of ours that node:http reports as an abort",
    abortBecause(new DOMException("late", "TimeoutError")),
    "unavailable",
  ],
  ["an abort that node:http reports", abortBecause(new DOMException("stop", "AbortError")), "cancelled"],
  ["an abort", new DOMException("stop", "AbortError"), "cancelled"],
  ["an error that is a fault already", new FaultError({ code: "pool_unknown", pool: "p" }), "pool_unknown"],
  ["a defect", new TypeError("x is not a function"), undefined],
  ["another system error", Object.assign(new Error("x"), { code: "ENOENT" }), undefined],
  ["a value that is no error", "ECONNREFUSED", undefined],
])("finds the cause inside %s", (_title, error, code) => {
  expect(toKubeFault(error)?.code).toBe(code);
});

it.each<[title: string, error: unknown, message: string | undefined]>([
  ["the first cause", refusal({ details: { causes: [{ message: "budget db" }] }, message: "no" }), "budget db"],
  ["the message where no cause is named", refusal({ message: "busy" }), "busy"],
  [
    "the error that it wraps",
    new FaultError({ code: "pool_unknown", pool: "p" }, { cause: refusal({ message: "busy" }) }),
    "busy",
  ],
  ["nothing for an error that is not the API server's", new Error("x"), undefined],
])("reads from a refusal %s", (_title, error, message) => {
  expect(getStatusMessage(error)).toBe(message);
});

function refusal(body: object): ApiException<unknown> {
  return new ApiException(429, "", body, {});
}

function abortBecause(cause: Error): Error {
  return Object.assign(new Error("The operation was aborted", { cause }), { name: "AbortError", code: "ABORT_ERR" });
}

it.each([
  "ECONNREFUSED",
  "ECONNRESET",
  "ECONNABORTED",
  "EPIPE",
  "ETIMEDOUT",
  "EHOSTUNREACH",
  "EHOSTDOWN",
  "ENETUNREACH",
  "ENETDOWN",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EPROTO",
  "ERR_STREAM_PREMATURE_CLOSE",
  "ERR_SSL_WRONG_VERSION_NUMBER",
  "ERR_TLS_CERT_ALTNAME_INVALID",
  "CERT_HAS_EXPIRED",
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
])("reads the network error %s as an unavailable API server", (code) => {
  expect(toKubeFault(Object.assign(new Error("x"), { code }))).toEqual({
    code: "unavailable",
    dependency: "kubernetes",
    retryAfterMs: 1000,
  });
});

it.each<[string, number, unknown, Fault]>([
  ["a conflict without details", 409, {}, { code: "conflict", id: "object", expectedRevision: 0, actualRevision: 0 }],
  ["no message", 400, {}, { code: "invalid_request", field: "request", reason: "refused with status 400" }],
  [
    "an empty message",
    400,
    { message: "" },
    { code: "invalid_request", field: "request", reason: "refused with status 400" },
  ],
  [
    "a message that is no text",
    400,
    { message: 5 },
    { code: "invalid_request", field: "request", reason: "refused with status 400" },
  ],
  ["empty details", 404, { details: { kind: "", name: "" } }, { code: "not_found", kind: "object", id: "" }],
  [
    "causes that are no list",
    422,
    { message: "m", details: { causes: {} } },
    { code: "invalid_request", field: "request", reason: "m" },
  ],
  ["the status of a request timeout", 408, {}, { code: "unavailable", dependency: "kubernetes", retryAfterMs: 1000 }],
  ["the last status", 599, {}, { code: "unavailable", dependency: "kubernetes", retryAfterMs: 1000 }],
])("reads %s", (_title, code, body, fault) => {
  expect(toKubeFault(new ApiException(code, "", body, {}))).toEqual(fault);
});

it.each([399, 600])("does not treat status %d as a refusal", (code) => {
  expect(toKubeFault(new ApiException(code, "", {}, {}))).toBeUndefined();
});
