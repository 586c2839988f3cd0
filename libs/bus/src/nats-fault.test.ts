import { FaultError, type FaultCode } from "@muster/faults";
import { errors } from "@nats-io/nats-core";
import { JetStreamApiError } from "@nats-io/jetstream";
import { expect, it } from "vitest";
import { natsError, natsFault } from "./nats-fault.ts";

const refused = Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" });
const noResponders = new errors.NoRespondersError("a.b");
const api = (err_code: number, code: number): Error => new JetStreamApiError({ err_code, code, description: "text" });

const thrown: [what: string, error: unknown, code: FaultCode][] = [
  ["nobody listening", noResponders, "unavailable"],
  ["nobody listening, wrapped", new errors.RequestError("text", { cause: noResponders }), "unavailable"],
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
  expect(natsFault(error, { operation: "trying", timeoutMs: 5 }).code).toBe(code);
});

it("leaves faults as they are and keeps what was thrown as the cause", () => {
  const fault = new FaultError({ code: "cancelled", operation: "a" });
  expect(natsError(fault, { operation: "b" })).toBe(fault);
  const cause = new errors.TimeoutError();
  expect(natsError(cause, { operation: "b", timeoutMs: 7 })).toMatchObject({
    fault: { code: "deadline_exceeded", operation: "b", timeoutMs: 7 },
    cause,
  });
});
