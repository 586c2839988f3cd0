import { ROOT_CONTEXT, trace } from "@opentelemetry/api";
import { expect, it } from "vitest";
import { buildTraceContext } from "./trace.ts";

const UID = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9";

function job(uid: string, traceparent = ""): Parameters<typeof buildTraceContext>[0] {
  return { traceparent, metadata: { name: "train", namespace: "default", uid } };
}

it("gives a job without a submission over the bus one trace, built from its uid, in every process", () => {
  expect(trace.getSpanContext(buildTraceContext(job(UID)))).toMatchObject({
    traceId: "0a1b2c3d4e5f60718293a4b5c6d7e8f9",
    spanId: "8293a4b5c6d7e8f9",
  });
});

it.each(["", "no uid", "00000000-0000-0000-0000-000000000000"])("builds no trace for a job of the uid %j", (uid) => {
  expect(buildTraceContext(job(uid))).toBe(ROOT_CONTEXT);
});

it("builds a new trace for a job with an invalid traceparent", () => {
  expect(trace.getSpanContext(buildTraceContext(job(UID, "spoiled")))).toBeUndefined();
});
