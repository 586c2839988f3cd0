import { readFile } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { until } from "@muster/testkit";
import { parse } from "yaml";
import { API_SERVERS } from "./api-servers.ts";
import { jobWorld, type JobWorld, type TestJob } from "./job-world.ts";

const POOLS = { workers: 3, drivers: 1 };
const EXAMPLES = new URL("../../../examples/", import.meta.url);

for (const server of API_SERVERS) {
  describe.skipIf(server.skip)(`jobs of real processes under ${server.title}`, () => {
    let world: JobWorld;

    beforeAll(async () => {
      world = await jobWorld(await server.start(), POOLS);
      await world.startController();
    });

    afterAll(() => world[Symbol.asyncDispose]());

    it("runs the example from its queue to its one final condition, and leaves nothing", async () => {
      const job = parse(await readFile(new URL("training-job.yaml", EXAMPLES), "utf8")) as TestJob;
      await world.create(job);
      const done = await world.untilCondition("training", "Succeeded");
      expect(done.status).toMatchObject({ state: "Succeeded", completions: "4/4", restarts: 0 });
      expect(done.status?.conditions?.filter(({ status }) => status === "True").map(({ type }) => type)).toEqual([
        "Created",
        "MachinesReserved",
        "Succeeded",
      ]);
      await world.untilNothingLeft("training");
    });

    it("is submitted, watched, explained, read and cancelled over the bus", async () => {
      const manifest = {
        apiVersion: "muster.dev/v1",
        kind: "Job",
        metadata: { name: "talker" },
        spec: {
          replicaSpecs: {
            worker: {
              replicas: 2,
              pool: "workers",
              template: {
                spec: { containers: [{ name: "main", image: "node", command: ["sh", "-c", "echo hello; sleep 600"] }] },
              },
            },
          },
        },
      };
      const manifestJson = JSON.stringify(manifest);
      const { job } = await world.jobs.submitJob({ requestId: "one", manifestJson });
      const again = await world.jobs.submitJob({ requestId: "one", manifestJson });
      expect(again.job?.uid).toBe(job?.uid);
      await expect(world.jobs.submitJob({ requestId: "two", manifestJson })).rejects.toMatchObject({
        fault: { code: "already_exists", kind: "Job", id: "talker" },
      });

      const key = { kind: "Job", name: "talker" };
      let seen = job;
      while (seen?.state !== "RUNNING" || seen.members?.some(({ state }) => state !== "RUNNING") === true) {
        const request = { key, afterRevision: seen?.revision ?? "", waitMs: 20_000 };
        ({ job: seen } = await world.jobs.watchJob(request, { timeoutMs: 30_000 }));
      }
      expect(seen.members?.map(({ component, pool }) => `${component} in ${pool}`)).toEqual([
        "worker-0 in workers",
        "worker-1 in workers",
      ]);
      const { reservation } = await world.ledger.getReservation({ owner: { kind: "job", id: seen.ownerId ?? "" } });
      expect(reservation?.machines?.map(({ component }) => component)).toEqual(["worker-0", "worker-1"]);
      const { chunk } = await until("the log is there", async () => {
        const log = await world.jobs.getJobLogs({ key: { name: "talker" }, component: "worker-1" });
        return log.chunk.length > 0 && log;
      });
      expect(Buffer.from(chunk).toString()).toBe("hello\n");
      // Good news of one moment is told together, a little later.
      const events = await until("the pods' event is there", async () => {
        const { events: told } = await world.jobs.listJobEvents({ key });
        return told.some(({ reason }) => reason === "SuccessfulCreatePod") && told;
      });
      const made = events.find(({ reason }) => reason === "SuccessfulCreatePod");
      expect(made).toMatchObject({ type: "Normal", message: "Created pod: talker-worker-0, talker-worker-1" });
      const { jobs } = await world.jobs.listJobs({});
      expect(jobs.map((each) => each.key?.name)).toContain("talker");

      await world.jobs.cancelJob({ requestId: "three", key });
      const cancelled = await world.untilCondition("talker", "Failed");
      expect(cancelled.status?.conditions?.find(({ type }) => type === "Failed")?.reason).toBe("Cancelled");
      await world.untilNothingLeft("talker");
    });

    it.each([
      ["no JSON", "{", "manifest_json"],
      ["another kind", '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}', "kind"],
      ["no name", '{"apiVersion":"muster.dev/v1","kind":"Job","metadata":{}}', "metadata.name"],
      [
        "nothing to run",
        '{"apiVersion":"muster.dev/v1","kind":"Job","metadata":{"name":"a"},"spec":{}}',
        "spec.replicaSpecs",
      ],
    ])("refuses a manifest with %s, and names the field", async (_title, manifestJson, field) => {
      const refused = world.jobs.submitJob({ requestId: "r", manifestJson });
      await expect(refused).rejects.toMatchObject({ fault: { code: "invalid_request", field } });
    });
  });
}
