import { startTelemetry } from "@muster/tracing";
import { startOtlpCollector, type OtlpCollector } from "@muster/testkit";
import { afterAll, beforeAll, expect, it } from "vitest";
import { buildPolicy } from "./build-node.ts";
import { ScalerWorld } from "./scaler-world.ts";

const MINUTE = 60_000;
let collector: OtlpCollector;

beforeAll(async () => {
  collector = await startOtlpCollector();
  Object.assign(process.env, collector.variables);
  const telemetry = await startTelemetry({ service: "node-scaler", version: "1", env: process.env });
  const world = new ScalerWorld(buildPolicy({ idleMs: MINUTE }));
  const gang = world.ledger.reserve("a", 2, world.nowMs);
  await world.run(MINUTE);
  world.restart();
  world.release(gang);
  await world.run(5 * MINUTE);
  expect(world.records()).toEqual([]);
  await telemetry[Symbol.asyncDispose]();
});
afterAll(async () => {
  delete process.env["OTEL_EXPORTER_OTLP_ENDPOINT"];
  await collector[Symbol.asyncDispose]();
});

const named = (name: string) => collector.spans.filter((span) => span.name === name);

it("records the life of each node as one trace, from its order to its end, across leaders", () => {
  const boots = named("boot node");
  expect(boots).toHaveLength(2);
  for (const { traceId, attributes } of boots) {
    const life = collector.spans.filter((span) => span.traceId === traceId);
    expect(life.map(({ name }) => name).sort()).toEqual(["boot node", "from order to ready", "stop node"]);
    expect(new Set(life.map((span) => span.attributes["muster.node"])).size).toBe(1);
    expect(attributes["muster.demand"]).toMatch(/^job\/j-1\//);
  }
  expect(new Set(boots.map(({ traceId }) => traceId)).size).toBe(2);
});

it("records only rounds that change something, with their ordered and marked nodes, linked to the traces of these", () => {
  const rounds = named("pool round");
  expect(rounds.map(({ attributes }) => [attributes["muster.starts"], attributes["muster.stops"]])).toEqual([
    [2, 0],
    [0, 2],
  ]);
  for (const name of ["pool round", "heartbeat round", "reaper round"]) {
    expect(named(name).length, name).toBeGreaterThan(0);
    for (const { attributes } of named(name)) expect(attributes["muster.plan.steps"], name).toBeGreaterThan(0);
  }
  const lives = named("boot node").map(({ traceId }) => traceId);
  for (const [index, name] of ["order node", "mark node"].entries()) {
    const steps = named(name);
    expect(steps.map(({ parentSpanId }) => parentSpanId)).toEqual(Array(2).fill(rounds[index]?.spanId));
    expect(steps.flatMap(({ links }) => links).sort()).toEqual(lives.toSorted());
  }
  expect(named("boot node").flatMap(({ links }) => links)).toEqual(Array(2).fill(rounds[0]?.traceId));
});
