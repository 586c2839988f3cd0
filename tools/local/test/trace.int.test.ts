import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { type OtlpCollector, otlpCollector, processEnv, type ReceivedSpan, until } from "@muster/testkit";
import { afterAll, beforeAll, expect, it } from "vitest";
import { ROOT } from "../src/stack.ts";
import { startWorld, type World } from "./stack-world.ts";

let collector: OtlpCollector;
let world: World;
beforeAll(async () => {
  collector = await otlpCollector();
  const baseEnv = {
    ...processEnv(),
    HOME: process.env["HOME"],
    OTEL_EXPORTER_OTLP_ENDPOINT: collector.endpoint,
  };
  world = await startWorld({ baseEnv });
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
  await collector[Symbol.asyncDispose]();
});

it("tells a session from `muster run` to the last pod deleted as one trace over all services", async () => {
  const cli = spawn(
    process.execPath,
    [join(ROOT, "apps/cli/src/main.ts"), "run", join(ROOT, "examples/http-benchmark.yaml")],
    {
      env: world.stack.clientEnv,
      stdio: ["ignore", "pipe", "inherit"],
    },
  );
  expect(await once(cli, "exit")).toEqual([0, null]);
  const root = await until("the root span has arrived", () =>
    collector.spans.find(({ name }) => name === "muster run"),
  );
  expect(root.parentSpanId).toBe("");
  const inTrace = (): ReceivedSpan[] => collector.spans.filter(({ traceId }) => traceId === root.traceId);
  const named = (text: string): ReceivedSpan[] => inTrace().filter(({ name }) => name.includes(text));

  await until("the clean-up has arrived", () => named("release").length > 0 && named("delete pods").length > 0);
  expect(new Set(inTrace().map(({ service }) => service))).toEqual(
    new Set(["muster", "session-controller", "reservation-manager"]),
  );
  expect(named("decide reservation").length).toBeGreaterThan(0);
  expect(
    named("start ")
      .map(({ name }) => name)
      .sort(),
  ).toEqual(["start client-0", "start client-1", "start driver", "start server-0", "start server-1"]);
  expect(named("collect logs").length).toBeGreaterThan(0);

  // A long span leaves its process after the short ones below it.
  const orphans = (): ReceivedSpan[] => {
    const known = new Set(inTrace().map(({ spanId }) => spanId));
    return inTrace().filter(({ spanId, parentSpanId }) => spanId !== root.spanId && !known.has(parentSpanId));
  };
  await until("every span has its parent", () => orphans().length === 0);
});
