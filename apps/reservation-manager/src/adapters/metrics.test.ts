import { scrapeMetrics } from "@muster/testkit";
import { startTelemetry } from "@muster/tracing";
import { expect, it } from "vitest";
import { startMetrics } from "./metrics.ts";

it("counts the steps of preemptions and their limits, and measures how long they take", async () => {
  await using telemetry = await startTelemetry({ service: "reservation-manager", version: "test", env: {} });
  using metrics = startMetrics(() => undefined);
  metrics.preemption({ kind: "planned", reason: "RECLAIM" });
  metrics.preemption({ kind: "planned", reason: "RECLAIM" });
  metrics.preemption({ kind: "withdrawn", reason: "DRAIN" });
  metrics.preemption({ kind: "served", reason: "RECLAIM", tookMs: 4000 });
  metrics.preemption({ kind: "limited", limit: "MAX_VICTIMS" });
  const text = await scrapeMetrics(telemetry);
  const series = text.split("\n").flatMap((line) => {
    const [, name = "", labels = "", value = ""] = /^muster_preemption_(\w+)\{(.*)\} (\S+)/.exec(line) ?? [];
    if (name === "" || name.endsWith("_bucket")) return [];
    const own = [...labels.matchAll(/muster_preemption_\w+="(\w+)"/g)].map(([, label]) => label);
    return [`${name} ${own.join(" ")} ${value}`];
  });
  expect(series.sort()).toEqual([
    "duration_count RECLAIM 1",
    "duration_sum RECLAIM 4",
    "limited_total MAX_VICTIMS 1",
    "steps_total planned RECLAIM 2",
    "steps_total withdrawn DRAIN 1",
  ]);
});
