import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { until } from "@muster/testkit";
import { API_SERVERS } from "./api-servers.ts";
import { badLuck } from "./failures/bad-luck.ts";
import { editedObjects } from "./failures/edited-objects.ts";
import { failingPods } from "./failures/failing-pods.ts";
import { failureWorld, type FailureWorld } from "./failures/failure-world.ts";
import { livesOfJobs } from "./failures/lives-of-jobs.ts";
import { olderDefinition } from "./failures/older-definition.ts";
import { trueConditions } from "./failures/simulated-job.ts";
import { reportedJobs } from "./failures/reported-jobs.ts";
import { waitingGangs } from "./failures/waiting-gangs.ts";
import type { Controller, TestJob } from "./job-world.ts";

for (const server of API_SERVERS) {
  describe.skipIf(server.skip)(`jobs and their failures under ${server.title}`, { timeout: 240_000 }, () => {
    let started: FailureWorld | undefined;
    const replicas: Controller[] = [];
    const world = (): FailureWorld => started ?? missing();

    beforeAll(async () => {
      started = await failureWorld(server);
      replicas.push(...(await Promise.all([started.startReplica(), started.startReplica()])));
      const { leaderPid } = started;
      await until("a replica leads", async () => (await leaderPid()) !== undefined, { timeoutMs: 180_000 });
      await started.untilPasses(0);
    }, 240_000);

    afterAll(() => started?.[Symbol.asyncDispose]());

    describe.concurrent("individually", () => {
      failingPods(world);
      editedObjects(world);
      livesOfJobs(world);
      waitingGangs(world);
      reportedJobs(world);
    });

    describe("during failures around them", () => badLuck({ world, replicas: () => replicas }));

    describe("with an older definition", () => olderDefinition(world));

    it("has ended no job in two ways", async () => {
      const { items } = await world().calls.list<TestJob>({
        apiVersion: "muster.dev/v1",
        plural: "jobs",
        namespace: "default",
      });
      const ends = items.map((job) => trueConditions(job).filter((type) => type === "Succeeded" || type === "Failed"));
      expect(ends.filter(({ length }) => length > 1)).toEqual([]);
      expect(ends.filter(({ length }) => length === 1).length).toBeGreaterThan(0);
    });
  });
}

function missing(): never {
  throw new Error("the world did not start");
}
