import { FaultError, type Fault, type FaultCode } from "@muster/faults";
import { errors } from "@nats-io/nats-core";
import { JetStreamApiError } from "@nats-io/jetstream";
import { expect, it } from "vitest";
import { findApiCode, isNoResponders, JS_ERROR, NATS_AWAY, toNatsError, toNatsFault } from "./nats-fault.ts";

const refused = Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" });
const noResponders = new errors.NoRespondersError("a.b");
const api = (err_code: number, code: number): Error => new JetStreamApiError({ err_code, code, description: "text" });

const thrown: [what: string, error: unknown, code: FaultCode][] = [
  ["no listener", noResponders, "unavailable"],
  ["no listener, wrapped", new errors.RequestError("text", { cause: noResponders }), "unavailable"],
  ["a request cut off", new errors.RequestError("text"), "cancelled"],
  ["a timeout", new errors.TimeoutError(), "deadline_exceeded"],
  ["a closed connection", new errors.ClosedConnectionError(), "cancelled"],
  ["a draining connection", new errors.DrainingConnectionError(), "cancelled"],
  ["a refused connection", refused, "unavailable"],
  ["a refused token", new errors.AuthorizationError("text"), "unavailable"],
  ["a wrong argument", new errors.InvalidArgumentError("text"), "invalid_request"],
  ["a wrong subject", new errors.InvalidSubjectError("a b"), "invalid_request"],
  ["a stream that is not there", api(10059, 404), "not_found"],
  ["a consumer that is not there", api(10014, 404), "not_found"],
  ["a last sequence that has moved", api(10071, 400), "conflict"],
  ["a full store", api(10047, 503), "limit_exceeded"],
  ["JetStream still starting", api(10008, 503), "unavailable"],
  ["a wrong stream configuration", api(10052, 500), "invalid_request"],
  ["a request that JetStream refuses", api(10025, 400), "invalid_request"],
  ["a stream that no server has loaded yet", api(10118, 500), "unavailable"],
  ["a defect", new TypeError("x is undefined"), "internal"],
  ["no error at all", "text", "internal"],
];

it.each(thrown)("%s is %s", (_what, error, code) => {
  expect(toNatsFault(error, { operation: "trying", timeoutMs: 5 }).code).toBe(code);
});

it("leaves faults unchanged and keeps the thrown error as the cause", () => {
  const fault = new FaultError({ code: "cancelled", operation: "a" });
  expect(toNatsError(fault, { operation: "b" })).toBe(fault);
  const cause = new errors.TimeoutError();
  expect(toNatsError(cause, { operation: "b", timeoutMs: 7 })).toMatchObject({
    fault: { code: "deadline_exceeded", operation: "b", timeoutMs: 7 },
    cause,
  });
});

const named = (name: string, more: object = {}): Error => Object.assign(new Error("text"), { name, ...more });
const stream = (kind: string): Fault => ({ code: "not_found", kind, id: "trying" });
const invalid = (reason: string): Fault => ({ code: "invalid_request", field: "trying", reason });
const full: Fault = { code: "limit_exceeded", what: "stream storage (text)", limit: 0, retryAfterMs: 500 };
const conflict: Fault = { code: "conflict", id: "trying", expectedRevision: 0, actualRevision: 0 };

it.each<[string, unknown, Fault]>([
  ["no responders", named("NoResponders"), NATS_AWAY],
  ["JetStream that is not enabled", named("JetStreamNotEnabled"), NATS_AWAY],
  ["a connection error", named("ConnectionError"), NATS_AWAY],
  ["a permission violation", named("PermissionViolationError"), NATS_AWAY],
  ["an expired user", named("UserAuthenticationExpiredError"), NATS_AWAY],
  ["an invalid name", named("InvalidNameError"), invalid("text")],
  ["a missing stream", api(JS_ERROR.streamNotFound, 404), stream("stream")],
  ["a missing consumer", api(JS_ERROR.consumerNotFound, 404), stream("consumer")],
  ["a missing stream, by its class", named("StreamNotFoundError", { code: 10059 }), stream("stream")],
  ["a missing consumer, by its class", named("ConsumerNotFoundError", { code: 10014 }), stream("consumer")],
  ["another missing object", api(1, 404), stream("jetstream object")],
  ["a last sequence that has moved, of unknown number", api(JS_ERROR.wrongLastSequenceUnknown, 400), conflict],
  ["a last sequence that has moved", api(JS_ERROR.wrongLastSequence, 400), conflict],
  ["a full store", api(JS_ERROR.storageInsufficient, 503), full],
  ["a store that failed", api(JS_ERROR.storeFailed, 503), full],
  ["a request timeout of JetStream", api(1, 408), NATS_AWAY],
  ["the first status of a server error", api(1, 500), NATS_AWAY],
  ["the last status before it", api(1, 499), { code: "internal", operation: "trying" }],
  ["a status of no meaning", named("JetStreamApiError"), { code: "internal", operation: "trying" }],
  ["a system error", named("Error", { code: "ECONNRESET" }), NATS_AWAY],
  ["another code", named("Error", { code: "RESET" }), { code: "internal", operation: "trying" }],
  ["a number as code", named("Error", { code: 5 }), { code: "internal", operation: "trying" }],
  ["an object that is no error", { code: "ECONNRESET" }, { code: "internal", operation: "trying" }],
  ["a timeout", named("TimeoutError"), { code: "deadline_exceeded", operation: "trying", timeoutMs: 0 }],
])("%s has a fault with all its fields", (_what, error, fault) => {
  expect(toNatsFault(error, { operation: "trying" })).toEqual(fault);
});

it("returns the number only of an error that carries one", () => {
  expect(findApiCode(api(10059, 404))).toBe(10059);
  expect(findApiCode(named("JetStreamApiError", { code: "10059" }))).toBeUndefined();
  expect(findApiCode(named("JetStreamApiError"))).toBeUndefined();
  expect(findApiCode({ code: 10059 })).toBeUndefined();
  expect(findApiCode(undefined)).toBeUndefined();
});

it("finds no responders in an error or in the cause of a request error", () => {
  expect(isNoResponders(named("NoResponders"))).toBe(true);
  expect(isNoResponders(named("RequestError", { cause: named("NoResponders") }))).toBe(true);
  expect(isNoResponders(named("RequestError", { cause: named("Other") }))).toBe(false);
  expect(isNoResponders(named("RequestError"))).toBe(false);
  expect(isNoResponders(named("Other", { cause: named("NoResponders") }))).toBe(false);
  expect(isNoResponders({ name: "NoResponders" })).toBe(false);
});
