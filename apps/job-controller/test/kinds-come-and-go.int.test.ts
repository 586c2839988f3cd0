import { startSimulatedNodes } from "@muster/devcluster";
import { findFreePort, until } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { API_SERVERS } from "./api-servers.ts";
import { buildReplicaType, makeSimulatedJob } from "./failures/simulated-job.ts";
import { installDefinition, openJobWorld, uninstallDefinition, type JobWorld, type TestJob } from "./job-world.ts";

const FILES = { "jobs.muster.dev": "muster.dev_jobs.yaml", "jaxjobs.kubeflow.org": "kubeflow.org_jaxjobs.yaml" };

for (const server of API_SERVERS) {
  describe.skipIf(server.skip)(`kinds that come and go under ${server.title}`, { timeout: 240_000 }, () => {
    let world: JobWorld;
    let readyUrl: string;

    beforeAll(async () => {
      const apiServer = await server.start();
      world = await openJobWorld(
        apiServer,
        { plenty: 2 },
        {
          definitions: Object.values(FILES),
          startNodes: (kubeconfig, pools) => startSimulatedNodes({ kubeconfig, pools, ...apiServer.nodeOptions }),
        },
      );
      const port = await findFreePort();
      readyUrl = `http://127.0.0.1:${port}/readyz?verbose`;
      await world.startController({ MUSTER_HTTP_ADDR: `127.0.0.1:${port}`, JOB_DISCOVER_MS: "300" });
    }, 240_000);

    afterAll(() => world[Symbol.asyncDispose]());

    const readiness = async (): Promise<string> => {
      const response = await fetch(readyUrl);
      return `${response.status} ${await response.text()}`;
    };
    const jaxJob = (name: string): TestJob => {
      const container = { name: "jax", image: "none", command: ["simulate", "--run-ms=50"] };
      const template = { spec: { containers: [container], nodeSelector: { pool: "plenty" } } };
      const spec = { jaxReplicaSpecs: { Worker: { replicas: 1, template } } };
      return { apiVersion: "kubeflow.org/v1", kind: "JAXJob", metadata: { name }, spec };
    };
    const runBoth = async (name: string): Promise<void> => {
      await world.create(makeSimulatedJob(name, { worker: buildReplicaType(["--run-ms=50"]) }));
      await world.create(jaxJob(`${name}-jax`));
      await world.untilCondition(name, "Succeeded");
      await world.untilCondition(`${name}-jax`, "Succeeded", "jaxjobs");
    };

    it("are run while they are installed, and again after a reinstallation", async () => {
      await until("it is ready", async () => (await readiness()).startsWith("200"), { timeoutMs: 60_000 });
      await runBoth("first");
      await uninstallDefinition(world.calls, "jaxjobs.kubeflow.org");
      const refused = world.jobs.submitJob({ requestId: "r", manifestJson: JSON.stringify(jaxJob("second")) });
      await expect(refused).rejects.toMatchObject({ fault: { code: "invalid_request", field: "kind" } });
      const isForgotten = async (): Promise<boolean> => {
        const { jobs } = await world.jobs.listJobs({});
        return jobs.map(({ key }) => `${key?.kind ?? ""}/${key?.name ?? ""}`).join() === "Job/first";
      };
      await until("its jobs are gone", isForgotten, { timeoutMs: 30_000 });
      const isNoted = async (): Promise<boolean> => /^200 .*not installed any more: JAXJob/s.test(await readiness());
      await until("the readiness names the missing kinds", isNoted, { timeoutMs: 30_000 });
      expect((await world.jobs.listJobs({})).kindsGone).toEqual(["JAXJob"]);

      await uninstallDefinition(world.calls, "jobs.muster.dev");
      const says = /^503 .*jobs\.muster\.dev is not installed/s;
      await until("the readiness states what is missing", async () => says.test(await readiness()), {
        timeoutMs: 30_000,
      });

      for (const file of Object.values(FILES)) await installDefinition(world.calls, file);
      await until("it is ready again", async () => (await readiness()).startsWith("200"), { timeoutMs: 30_000 });
      await until("nothing is missed", async () => !(await readiness()).includes("any more"), { timeoutMs: 30_000 });
      await runBoth("second");
    });
  });
}
