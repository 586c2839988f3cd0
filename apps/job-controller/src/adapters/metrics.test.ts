import { scrapeMetrics } from "@muster/testkit";
import { startTelemetry } from "@muster/tracing";
import { expect, it } from "vitest";
import type { StatusChange } from "../domain/find-status-changes.ts";
import { countForced, countRequeued, makeJobMetrics } from "./metrics.ts";

function change(is: StatusChange["kind"]): StatusChange {
  return { kind: is, type: "Normal", reason: "", message: "" };
}

it("counts the status changes of jobs by kind", async () => {
  await using telemetry = await startTelemetry({ service: "job-controller", version: "test", env: {} });
  const { countStatusChanges } = makeJobMetrics();
  countStatusChanges("Job", [change("Created"), change("MachinesReserved"), change("Running"), change("Warning")]);
  countStatusChanges("Job", [change("Restarting")]);
  countStatusChanges("Job", [change("Restarting")]);
  countStatusChanges("TFJob", [change("Created"), change("Failed")]);
  countStatusChanges("Job", [change("Succeeded"), change("Requeued")]);
  countRequeued()("job-set");
  const text = await scrapeMetrics(telemetry);
  const counted = text
    .split("\n")
    .flatMap(
      (line) => /^muster_job_(\w+)_total\{.*muster_job_kind="([\w-]+)".*\} (\d+)/.exec(line)?.slice(1).join(" ") ?? [],
    );
  expect(counted.sort()).toEqual([
    "created Job 1",
    "created TFJob 1",
    "failed TFJob 1",
    "requeued Job 1",
    "requeued job-set 1",
    "restarted Job 2",
    "succeeded Job 1",
  ]);
});

it("counts pods that were removed by force, by reason", async () => {
  await using telemetry = await startTelemetry({ service: "job-controller", version: "test", env: {} });
  const forced = countForced();
  forced("preempted");
  forced("preempted");
  forced("machine-lost");
  const text = await scrapeMetrics(telemetry);
  const counted = [...text.matchAll(/^muster_job_forced_total\{.*muster_job_reason="([\w-]+)".*\} (\d+)/gm)];
  expect(counted.map(([, reason, count]) => `${reason} ${count}`).sort()).toEqual(["machine-lost 1", "preempted 2"]);
});
