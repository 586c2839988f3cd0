import { startOtlpCollector } from "@muster/testkit";
import { startTelemetry } from "@muster/tracing";
import { expect, it } from "vitest";
import { makeLeaseWorld } from "../../test/lease-world.ts";

it("creates a span for each round that changes something, with its step and the reason, and none for a wait", async () => {
  await using received = await startOtlpCollector();
  Object.assign(process.env, received.variables);
  const telemetry = await startTelemetry({ service: "tested", version: "1", env: process.env });
  const world = makeLeaseWorld();
  world.order("1-1");
  await world.pass("1-1");
  while (world.isBusy()) await world.step(0);
  // The lease is active, and waits for its end.
  await world.pass("1-1");
  await telemetry[Symbol.asyncDispose]();
  delete process.env["OTEL_EXPORTER_OTLP_ENDPOINT"];
  const passes = received.spans.filter(({ name }) => name === "lease pass");
  expect(passes.map(({ attributes }) => attributes["muster.plan"])).toEqual([
    { values: [{ stringValue: "provisioning: capacity-suffices" }] },
    { values: [{ stringValue: "provision: not-active-yet" }] },
  ]);
  expect(passes.map(({ attributes }) => attributes["muster.lease"])).toEqual(["1-1", "1-1"]);
  const steps = received.spans.filter(({ name }) => name !== "lease pass");
  expect(steps.map(({ name, parentSpanId }) => [name, parentSpanId])).toEqual([
    ["lease provisioning", passes[0]?.spanId],
    ["lease provision", passes[1]?.spanId],
  ]);
});
