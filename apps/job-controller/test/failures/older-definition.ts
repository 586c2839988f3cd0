import type { V1CustomResourceDefinition } from "@kubernetes/client-node";
import { expect, it } from "vitest";
import { until } from "@muster/testkit";
import type { FailureWorld } from "./failure-world.ts";
import { findReason, buildReplicaType, makeSimulatedJob } from "./simulated-job.ts";

const DEFINITIONS = { apiVersion: "apiextensions.k8s.io/v1", plural: "customresourcedefinitions" };
/** The fields of the status that the controller needs itself, beside those for people. */
const REMEMBERED = [
  ...["attempt", "attemptsCounted", "replaced", "regrouping", "announcedRestart"],
  ...["hasBeenReady", "readyTimeouts", "lastReadyTimeout"],
];
const REMEMBERED_OF_TYPES = ["restarts", "completedIndexes", "counted", "uncounted"];

/** Runs last, because the API server has one definition for all jobs. */
export function describeOlderDefinition(world: () => FailureWorld): void {
  it("keeps its budget although an older definition drops its fields", async () => {
    const { calls, create, patch, get, untilCondition, untilPasses } = world();
    await create(
      makeSimulatedJob("probe", { worker: buildReplicaType([]) }, { runPolicy: { managedBy: "example.com/other" } }),
    );
    const definition = await calls.get<V1CustomResourceDefinition>(DEFINITIONS, "jobs.muster.dev");
    const status = definition.spec.versions[0]?.schema?.openAPIV3Schema?.properties?.["status"]?.properties ?? {};
    const ofTypes: unknown = status["replicaStatuses"]?.additionalProperties;
    const properties = (ofTypes as { properties?: Record<string, unknown> } | undefined)?.properties ?? {};
    for (const field of REMEMBERED) Reflect.deleteProperty(status, field);
    for (const field of REMEMBERED_OF_TYPES) Reflect.deleteProperty(properties, field);
    await calls.replace(DEFINITIONS, definition);
    await until("the API server drops the fields", async () => {
      await patch("probe", { status: { attempt: 3 } }, "status");
      const dropped = !("attempt" in ((await get("probe"))?.status ?? {}));
      if (!dropped) await patch("probe", { status: { attempt: null } }, "status");
      return dropped;
    });
    const worker = buildReplicaType(["--run-ms=50", "--exit=137"], { restartPolicy: "ExitCode" });
    await create(makeSimulatedJob("forgotten", { worker }, { runPolicy: { backoffLimit: 2 } }));
    const failed = await untilCondition("forgotten", "Failed");
    expect(findReason(failed, "Failed")).toBe("BackoffLimitExceeded");
    expect(failed.status?.replicaStatuses?.["worker"]).not.toHaveProperty("restarts");
    await untilPasses(2);
    const { resourceVersion } = (await get("forgotten"))?.metadata ?? {};
    await untilPasses(2);
    expect((await get("forgotten"))?.metadata.resourceVersion).toBe(resourceVersion);
  });
}
