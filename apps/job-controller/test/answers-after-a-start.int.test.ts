import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { API_SERVERS } from "./api-servers.ts";
import { openFailureWorld, type FailureWorld } from "./failures/failure-world.ts";
import { buildReplicaType, makeSimulatedJob } from "./failures/simulated-job.ts";

const NAME = "was-there-before";
/** The delay is much longer than the bus needs to reach a replica that has just begun to serve. */
const LIST_DELAY_MS = 1500;

for (const server of API_SERVERS) {
  describe.skipIf(server.skip)(`a replica that has just started, under ${server.title}`, { timeout: 240_000 }, () => {
    let world: FailureWorld;

    beforeAll(async () => {
      world = await openFailureWorld(server);
    }, 240_000);

    afterAll(() => world[Symbol.asyncDispose]());

    it("does not list zero jobs before it has read them", async () => {
      await world.create(makeSimulatedJob(NAME, { worker: buildReplicaType(["--run-ms=60000"]) }));
      const lists = { who: ["slow"], verbs: ["list"] } as const;
      await world.api.inject({ id: "lists", match: lists, fault: { do: "delay", ms: LIST_DELAY_MS } });
      await world.startReplica("slow");
      const found = await world.jobs.getJob({ key: { kind: "", name: NAME } }, { timeoutMs: 60_000 });
      const { jobs } = await world.jobs.listJobs({}, { timeoutMs: 60_000 });
      expect([found.job?.key?.name, ...jobs.map(({ key }) => key?.name)]).toEqual([NAME, NAME]);
    });
  });
}
