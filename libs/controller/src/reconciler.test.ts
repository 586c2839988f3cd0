import { startOtlpCollector } from "@muster/testkit";
import { startTelemetry } from "@muster/tracing";
import { ROOT_CONTEXT } from "@opentelemetry/api";
import { expect, it } from "vitest";
import { makeReconciler, type ControllerParts, type PlannedStep } from "./reconciler.ts";

type Plan = { readonly steps: readonly PlannedStep[] };
const GROW = { kind: "grow", because: "too-small" };
const never = new AbortController().signal;

/** Raises a number to three, by one per round. */
function growing(start: number, more: Partial<ControllerParts<number, Plan>> = {}) {
  const world = { size: start, rounds: [] as number[] };
  const reconcile = makeReconciler<number, Plan>({
    tracer: "tested",
    observe: () => Promise.resolve({ seen: world.size }),
    plan: (size) => ({ steps: size < 3 ? [GROW] : [] }),
    act: (_size, { steps }, { number }) => {
      world.rounds.push(number);
      world.size += steps.length;
      return Promise.resolve(steps.length > 0 ? "again" : { requeueAfterMs: 700 });
    },
    span: (_size, { steps }) =>
      steps.length === 0 ? undefined : { name: "growth", parent: ROOT_CONTEXT, attributes: { key: "a" } },
    ...more,
  });
  return { world, reconcile };
}

it("observes, plans and acts until no step is left, and returns the time of the next pass", async () => {
  const { world, reconcile } = growing(0);
  expect(await reconcile("a", never)).toEqual({ requeueAfterMs: 700 });
  expect(world).toEqual({ size: 3, rounds: [1, 2, 3, 4] });
});

it("plans no step without an observation", async () => {
  const { world, reconcile } = growing(0, { observe: () => Promise.resolve({ requeueAfterMs: 50 }) });
  expect(await reconcile("a", never)).toEqual({ requeueAfterMs: 50 });
  expect(world.rounds).toEqual([]);
});

it("fails with the key if its plan never becomes empty, and frees its worker", async () => {
  const { world, reconcile } = growing(0, { plan: () => ({ steps: [GROW] }) });
  const error = new Error("the plan for a has not converged after 16 rounds");
  expect(await reconcile("a", never)).toEqual({ isFailed: true, error });
  expect(world.rounds).toHaveLength(16);
});

it("begins no further round once it is stopped", async () => {
  const stop = new AbortController();
  const { world, reconcile } = growing(0, {
    plan: (size) => {
      if (size === 1) stop.abort();
      return { steps: [GROW] };
    },
  });
  await reconcile("a", stop.signal);
  expect(world.rounds).toEqual([1, 2]);
});

it("creates a span with the plan and its reasons for each round that changes state, and for no other", async () => {
  await using received = await startOtlpCollector();
  Object.assign(process.env, received.variables);
  const telemetry = await startTelemetry({ service: "tested", version: "1", env: process.env });
  await growing(2).reconcile("a", never);
  await telemetry[Symbol.asyncDispose]();
  delete process.env["OTEL_EXPORTER_OTLP_ENDPOINT"];
  expect(received.spans.map(({ name, attributes }) => ({ name, attributes }))).toEqual([
    {
      name: "growth",
      attributes: { key: "a", "muster.plan": { values: [{ stringValue: "grow: too-small" }] }, "muster.plan.steps": 1 },
    },
  ]);
});
