import { spawn } from "node:child_process";
import { once } from "node:events";
import { dirname, join } from "node:path";
import { type OtlpCollector, startOtlpCollector, buildProcessEnv, type ReceivedSpan, until } from "@muster/testkit";
import { afterAll, beforeAll, expect, it } from "vitest";
import { ROOT } from "../src/root.ts";
import { runMuster } from "./muster-run.ts";
import { startWorld, type World } from "./stack-world.ts";

let collector: OtlpCollector;
let world: World;
beforeAll(async () => {
  collector = await startOtlpCollector();
  const baseEnv = {
    ...buildProcessEnv(),
    HOME: process.env["HOME"],
    ...collector.variables,
  };
  world = await startWorld({ baseEnv });
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
  await collector[Symbol.asyncDispose]();
});

it("traces a session from `muster run` to the last deleted pod as one trace over all services", async () => {
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
    named("create pod")
      .map(({ attributes }) => attributes["muster.component"])
      .sort(),
  ).toEqual(["client-0", "client-1", "driver", "server-0", "server-1"]);
  expect(named("collect logs").length).toBeGreaterThan(0);

  await until("every span has its parent", () => orphansOf(inTrace(), root).length === 0);
});

it("traces a lease from `muster lease order` to its end as one trace, and its history names the same trace", async () => {
  const key = join(dirname(world.stack.kubeconfig), "user.key");
  const done = async (line: string): Promise<string> => {
    const { code, output } = await runMuster(world, line.split(" "));
    expect(code, output).toBe(0);
    return output;
  };
  await done(`keys new --key-file ${key}`);
  const file = join(ROOT, "examples/leases/machine.yaml");
  const id = /lease\/(\S+) ordered/.exec(await done(`lease order --key-file ${key} -f ${file} --wait`))?.[1] ?? "";
  await done(`lease renew ${id} --for 1h --key-file ${key}`);
  await done(`lease end ${id} --wait --key-file ${key}`);

  const root = await until("the root span has arrived", () =>
    collector.spans.find(({ name }) => name === "muster lease order"),
  );
  expect(root.parentSpanId).toBe("");
  const inTrace = (): ReceivedSpan[] => collector.spans.filter(({ traceId }) => traceId === root.traceId);
  const names = (): string[] => inTrace().map(({ name }) => name);
  const steps = ["muster lease renew", "muster lease end", "provision machine", "decommission machine", "answer"];
  await until("every step has arrived", () => steps.every((step) => names().includes(step)));
  expect(new Set(inTrace().map(({ service }) => service))).toEqual(
    new Set(["muster", "provision-engine", "reservation-manager"]),
  );
  expect(names()).toContain("decide reservation");
  const reasons = inTrace().filter(({ name }) => name === "lease provision" || name === "lease decommission");
  expect(reasons.map(({ attributes }) => attributes["muster.because"])).not.toContain(undefined);
  const parentOf = (name: string) => {
    const child = inTrace().find((span) => span.name === name);
    return inTrace().find(({ spanId }) => spanId === child?.parentSpanId)?.name;
  };
  await until("each call is below its step", () => parentOf("provision machine") === "lease provision");
  await until("each step is below its pass", () => parentOf("lease provision") === "lease pass");
  await until("every span has its parent", () => orphansOf(inTrace(), root).length === 0);

  const readHistory = async (): Promise<{ event: string; traceparent: string }[]> =>
    JSON.parse(await done(`lease history ${id} -o json`)) as { event: string; traceparent: string }[];
  await until("its end is in the history", async () =>
    (await readHistory()).some(({ event }) => event === "DECOMMISSIONED"),
  );
  const events = (await readHistory()).filter(({ event }) => event !== "RESENT");
  expect(events.map(({ event }) => event)).toEqual(["ORDERED", "PROVISIONED", "RENEWED", "ENDING", "DECOMMISSIONED"]);
  expect(new Set(events.map(({ traceparent }) => traceparent.split("-")[1]))).toEqual(new Set([root.traceId]));
});

/** A long span leaves its process after the short ones below it. */
function orphansOf(spans: readonly ReceivedSpan[], root: ReceivedSpan): ReceivedSpan[] {
  const known = new Set(spans.map(({ spanId }) => spanId));
  return spans.filter(({ spanId, parentSpanId }) => spanId !== root.spanId && !known.has(parentSpanId));
}
