import { conflict, expired, type Failure, internalError, MODIFIED, tooManyRequests } from "../apiserver/status.ts";
import type { RequestFault } from "./decide-fault.ts";
import type { RequestFacts } from "./request-facts.ts";

const RETRY_AFTER_SECONDS = 1;

/** Builds an answer as the API server words it. */
export function buildFaultAnswer(fault: Extract<RequestFault, { do: "answer" }>, request: RequestFacts): Failure {
  const { code, retryAfterSeconds } = fault;
  switch (code) {
    case 409:
      return conflict({ group: "", plural: request.resource }, request.name, MODIFIED);
    case 429:
      return tooManyRequests(
        "Too many requests, please try again later.",
        Math.ceil(retryAfterSeconds ?? RETRY_AFTER_SECONDS),
      );
    case 500:
      return internalError("etcdserver: request timed out");
    case 503:
      return {
        code,
        reason: "ServiceUnavailable",
        message: "the server is currently unable to handle the request",
        details: retryAfterSeconds === undefined ? {} : { retryAfterSeconds: Math.ceil(retryAfterSeconds) },
      };
    case 504:
      return {
        code,
        reason: "Timeout",
        message: "Timeout: request did not complete within requested timeout - context deadline exceeded",
        details: {},
      };
  }
}

export const WATCH_TOO_OLD: Failure = expired("The resourceVersion for the provided watch is too old.");
