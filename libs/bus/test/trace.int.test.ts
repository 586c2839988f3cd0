import { trace } from "@opentelemetry/api";
import { muster, ReservationService, subjects } from "@muster/proto";
import { startTestNats, startOtlpCollector, until } from "@muster/testkit";
import { inSpan, startTelemetry } from "@muster/tracing";
import { expect, it } from "vitest";
import { makeClient, connectNats, consumeEvents, publishEvent, serveMethods } from "../src/index.ts";
import { answered } from "./answered.ts";

it("connects a call, the event that it publishes, and the handler of that event in one trace", async () => {
  await using collector = await startOtlpCollector();
  await using server = await startTestNats();
  Object.assign(process.env, collector.variables);
  const telemetry = await startTelemetry({ service: "tested", version: "1.0.0", env: process.env });
  await using bus = await connectNats({ url: server.url, token: server.token, name: "tested" });
  const Granted = muster.reservation.v1.ReservationGranted;
  const subject = subjects.reservationGranted("session", "s-1");
  await bus.ensureStream({ name: "E", subjects: [subjects.anyReservationGranted], retention: "limits" });
  const handlers = answered({
    reserve: async () => {
      await publishEvent(bus, subject, Granted, {}, { messageId: "1" });
      return {};
    },
    listReservations: () => Promise.reject(new Error("on purpose")),
  });
  await using _service = await serveMethods(bus, ReservationService, handlers, { version: "1.0.0", description: "" });
  const traceIds: (string | undefined)[] = [];
  const consuming = { stream: "E", durable: "d", subject: subjects.anyReservationGranted, maxInFlight: 1 };
  await using _consumer = await consumeEvents(bus, { ...consuming, ackWaitMs: 5000, area: "test" }, Granted, () => {
    traceIds.push(trace.getActiveSpan()?.spanContext().traceId);
    return Promise.resolve();
  });
  await inSpan("test", "root", {}, async () => {
    await makeClient(bus, ReservationService).reserve({});
    await makeClient(bus, ReservationService)
      .listReservations({})
      .catch(() => undefined);
  });
  await until("the event is handled", () => traceIds.length === 1);
  await telemetry[Symbol.asyncDispose]();

  const request = subjects.request("reservation", "reserve");
  const chain = ["root", `send ${request}`, `process ${request}`];
  const eventChain = [`send ${subjects.anyReservationGranted}`, `process ${subjects.anyReservationGranted}`];
  const spans = [...chain, ...eventChain].map((name) => collector.spans.find((span) => span.name === name));
  expect(spans.map((span) => span?.traceId)).toEqual(spans.map(() => traceIds[0]));
  for (let n = 1; n < spans.length; n += 1) expect(spans[n]?.parentSpanId).toBe(spans[n - 1]?.spanId);
  expect(spans[2]?.attributes).toMatchObject({
    "messaging.system": "nats",
    "messaging.operation.type": "process",
    "messaging.destination.template": request,
    "rpc.service": "muster.reservation.v1.ReservationService",
    "rpc.method": "Reserve",
  });
  const failed = collector.spans.filter((span) => span.failed).map(({ name }) => name);
  const failing = subjects.request("reservation", "list-reservations");
  expect(failed.sort()).toEqual([`process ${failing}`, `send ${failing}`]);
});
