import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { until } from "@muster/testkit";
import { API_SERVERS } from "./api-servers.ts";
import { describeBadLuck } from "./failures/bad-luck.ts";
import { describeEditedObjects } from "./failures/edited-objects.ts";
import { describeFailingPods } from "./failures/failing-pods.ts";
import { openFailureWorld, type FailureWorld } from "./failures/failure-world.ts";
import { describeLivesOfJobs } from "./failures/lives-of-jobs.ts";
import { describeOlderDefinition } from "./failures/older-definition.ts";
import { listTrueConditions } from "./failures/simulated-job.ts";
import { describeReportedJobs } from "./failures/reported-jobs.ts";
import { describeWaitingGangs } from "./failures/waiting-gangs.ts";
import type { Controller, TestJob } from "./job-world.ts";

for (const server of API_SERVERS) {
  describe.skipIf(server.skip)(`jobs and their failures under ${server.title}`, { timeout: 240_000 }, () => {
    let started: FailureWorld | undefined;
    const replicas: Controller[] = [];
    const world = (): FailureWorld => started ?? missing();

    beforeAll(async () => {
      started = await openFailureWorld(server);
      replicas.push(...(await Promise.all([started.startReplica(), started.startReplica()])));
      const { leaderPid } = started;
      await until("a replica leads", async () => (await leaderPid()) !== undefined, { timeoutMs: 180_000 });
      await started.untilPasses(0);
    }, 240_000);

    afterAll(() => started?.[Symbol.asyncDispose]());

    describe.concurrent("individually", () => {
      describeFailingPods(world);
      describeEditedObjects(world);
      describeLivesOfJobs(world);
      describeWaitingGangs(world);
      describeReportedJobs(world);
    });

    describe("during failures around them", () => describeBadLuck({ world, replicas: () => replicas }));

    describe("with an older definition", () => describeOlderDefinition(world));

    it("has ended no job in two ways", async () => {
      const { items } = await world().calls.list<TestJob>({
        apiVersion: "muster.dev/v1",
        plural: "jobs",
        namespace: "default",
      });
      const ends = items.map((job) =>
        listTrueConditions(job).filter((type) => type === "Succeeded" || type === "Failed"),
      );
      expect(ends.filter(({ length }) => length > 1)).toEqual([]);
      expect(ends.filter(({ length }) => length === 1).length).toBeGreaterThan(0);
    });
  });
}

function missing(): never {
  throw new Error("the world did not start");
}
