import { until } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { API_SERVERS } from "./api-servers.ts";
import { openJobWorld, type JobWorld, type TestJob } from "./job-world.ts";

for (const server of API_SERVERS) {
  describe.skipIf(server.skip)(`jobs of two kinds with one name under ${server.title}`, () => {
    let world: JobWorld;

    beforeAll(async () => {
      const definitions = ["muster.dev_jobs.yaml", "kubeflow.org_jaxjobs.yaml"];
      world = await openJobWorld(await server.start(), { machines: 4 }, { definitions });
      await world.startController({ JOB_DEFAULT_POOL: "machines" });
    });

    afterAll(() => world[Symbol.asyncDispose]());

    it(
      "the second one states whose pods have its names, and runs once they are gone",
      { timeout: 240_000 },
      async () => {
        await world.create(jax("twin", "sleep 600"));
        await world.untilCondition("twin", "Running", "jaxjobs");
        await world.create(own("twin", "true"));
        const waiting = await world.untilCondition("twin", "PodNamesTaken");
        const condition = waiting.status?.conditions?.find(({ type }) => type === "PodNamesTaken");
        expect(condition).toMatchObject({
          status: "True",
          reason: "NameConflict",
          message:
            "pod twin-worker-0 belongs to JAXJob twin, pod twin-worker-1 belongs to JAXJob twin; this job needs the name and waits for it: delete what has it, or give this job another name",
        });
        expect(waiting.status).toMatchObject({ state: "Starting", message: condition?.message });
        const explained = await until("users see the condition", async () => {
          const { job } = await world.jobs.getJob({ key: { kind: "Job", name: "twin" } });
          return job?.waitingBecause === condition?.message && (job?.state ?? "");
        });
        expect(explained).toBe("STARTING");
        const first = await world.get("twin", "jaxjobs");
        expect(first?.status?.conditions?.some(({ type }) => type === "PodNamesTaken")).toBe(false);

        await world.calls.delete({ apiVersion: "kubeflow.org/v1", plural: "jaxjobs", namespace: "default" }, "twin", {
          propagationPolicy: "Background",
        });
        // Acts as the garbage collector, for an API server without one.
        if (server.isReal) {
          const pods = { apiVersion: "v1", plural: "pods", namespace: "default" };
          for (const { metadata } of await world.pods("twin"))
            await world.calls.delete(pods, metadata?.name ?? "", { gracePeriodSeconds: 0 });
        }
        const done = await world.untilCondition("twin", "Succeeded");
        expect(done.status?.conditions?.map(({ type }) => type)).not.toContain("PodNamesTaken");
        await world.untilNothingLeft("twin");
      },
    );
  });
}

function containers(name: string, command: string): object {
  return { spec: { containers: [{ name, image: "program:1", command: ["sh", "-c", command] }] } };
}

function jax(name: string, command: string): TestJob {
  const Worker = { replicas: 2, template: containers("jax", command) };
  return { apiVersion: "kubeflow.org/v1", kind: "JAXJob", metadata: { name }, spec: { jaxReplicaSpecs: { Worker } } };
}

function own(name: string, command: string): TestJob {
  const worker = { replicas: 2, template: containers("main", command) };
  return { apiVersion: "muster.dev/v1", kind: "Job", metadata: { name }, spec: { replicaSpecs: { worker } } };
}
