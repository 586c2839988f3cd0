import type { CoreV1Event } from "@kubernetes/client-node";
import { startSimulatedNodes } from "@muster/devcluster";
import { until } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { API_SERVERS } from "./api-servers.ts";
import { buildReplicaType, makeSimulatedJob } from "./failures/simulated-job.ts";
import { openJobWorld, type JobWorld } from "./job-world.ts";

const OTHER = "team-a";
const JOBS = { apiVersion: "muster.dev/v1", plural: "jobs", namespace: OTHER };

for (const server of API_SERVERS) {
  describe.skipIf(server.skip)(
    `a job in a namespace that is not served, under ${server.title}`,
    { timeout: 240_000 },
    () => {
      let world: JobWorld;

      beforeAll(async () => {
        const apiServer = await server.start();
        const startNodes = (kubeconfig: string, pools: Readonly<Record<string, number>>) =>
          startSimulatedNodes({ kubeconfig, pools, ...apiServer.nodeOptions });
        world = await openJobWorld(apiServer, { plenty: 1 }, { startNodes });
        await world.startController({ JOB_REFRESH_MS: "1000" });
      }, 240_000);

      afterAll(() => world[Symbol.asyncDispose]());

      it("has an event that names the served namespace, and is listed as unserved until it is deleted", async () => {
        await world.calls.create({ apiVersion: "v1", plural: "namespaces" }, { metadata: { name: OTHER } });
        const job = makeSimulatedJob("stray", { worker: buildReplicaType(["--run-ms=50"]) });
        await world.calls.create(JOBS, { ...job, metadata: { ...job.metadata, namespace: OTHER } });
        const events = async (): Promise<readonly CoreV1Event[]> =>
          (await world.calls.list<CoreV1Event>({ apiVersion: "v1", plural: "events", namespace: OTHER })).items;
        const [event] = await until(
          "there is an event",
          async () => {
            const found = await events();
            return found.length > 0 && found;
          },
          { timeoutMs: 60_000 },
        );
        expect(event).toMatchObject({
          type: "Warning",
          reason: "NamespaceNotServed",
          message: "no controller serves the namespace team-a: Muster runs the jobs of default; create the job there",
          involvedObject: { kind: "Job", namespace: OTHER, name: "stray" },
        });
        const listed = await world.jobs.listJobs({ limit: 1 });
        expect(listed).toMatchObject({ jobs: [], namespace: "default", elsewhereRefused: false, moreElsewhere: false });
        expect(listed.jobsElsewhere).toMatchObject([{ kind: "Job", namespace: OTHER, name: "stray" }]);

        await world.calls.delete(JOBS, "stray");
        const isForgotten = async (): Promise<boolean> => (await world.jobs.listJobs({})).jobsElsewhere.length === 0;
        await until("the scan forgets it", isForgotten, { timeoutMs: 60_000 });
      });
    },
  );
}
