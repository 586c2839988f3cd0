import { expect, it } from "vitest";
import { until, type ReceivedSpan } from "@muster/testkit";
import type { TestJob } from "../job-world.ts";
import type { FailureWorld } from "./failure-world.ts";
import { buildReplicaType, makeSimulatedJob } from "./simulated-job.ts";

/** Tests reports about jobs: status, events and traces. */
export function describeReportedJobs(world: () => FailureWorld): void {
  it("writes nothing on an unchanged job, in however many passes", async () => {
    const { create, untilRunning, untilPasses, untilCondition, removeWhole } = world();
    await create(makeSimulatedJob("still", { worker: buildReplicaType([], { replicas: 2 }) }));
    await untilRunning("still-worker-0");
    await untilRunning("still-worker-1");
    await untilCondition("still", "Running");
    const ready = async (): Promise<TestJob | false> => {
      const job = await world().get("still");
      return job?.status?.replicaStatuses?.["worker"]?.ready === 2 && job;
    };
    const before = await until("both pods are counted", ready);
    await untilPasses(4);
    expect((await world().get("still"))?.metadata).toEqual(before.metadata);
    await removeWhole("still");
  });

  it("reports its steps in events", async () => {
    const { create, untilCondition, eventsOf } = world();
    await create(makeSimulatedJob("storied", { worker: buildReplicaType(["--run-ms=50"]) }));
    await untilCondition("storied", "Succeeded");
    await until("the events are written", async () => {
      const reasons = new Set(await eventsOf("storied"));
      return [
        "SuccessfulCreatePod",
        "SuccessfulCreateService",
        "SuccessfulCreatePdb",
        "MachinesGranted",
        "JobSucceeded",
      ].every((each) => reasons.has(each));
    });
  });

  it("reports in an event why a job has failed", async () => {
    const { create, untilCondition, eventsOf } = world();
    await create(
      makeSimulatedJob("sad", { worker: buildReplicaType(["--run-ms=50", "--exit=1"], { restartPolicy: "Never" }) }),
    );
    await untilCondition("sad", "Failed");
    await until("the event is written", async () => (await eventsOf("sad")).includes("PodFailed"));
  });

  it.each([
    ["that kubectl made", "plain", false],
    ["that was submitted over the bus", "traced", true],
  ])("is one trace, from its first pass to its end, for a job %s", async (_title, name, isSubmitted) => {
    const { create, jobs, untilCondition, collector, untilReturned } = world();
    const manifest = makeSimulatedJob(name, { worker: buildReplicaType(["--run-ms=50"]) });
    const submit = () => jobs.submitJob({ requestId: name, manifestJson: JSON.stringify(manifest) });
    if (isSubmitted) await until("a replica answers", submit, { timeoutMs: 60_000 });
    else await create(manifest);
    const done = await untilCondition(name, "Succeeded");
    await untilReturned(done);
    const own = (): readonly ReceivedSpan[] =>
      collector.spans.filter(({ attributes }) => attributes["muster.job"] === name);
    await until("its end is reported", () => own().some((span) => span.name === "release"));
    const names = own().map((span) => span.name);
    expect(names).toEqual(expect.arrayContaining(["job pass", "reserve", "create-pods", "release"]));
    const submission = done.metadata.annotations?.["muster.dev/traceparent"]?.split("-")[1];
    const traceId = isSubmitted ? submission : done.metadata.uid?.replaceAll("-", "");
    expect([...new Set(own().map((span) => span.traceId))]).toEqual([traceId]);
  });
}
