import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { until } from "@muster/testkit";
import { API_SERVERS } from "./api-servers.ts";
import { failureWorld, type FailureWorld } from "./failures/failure-world.ts";
import { replicaType, simulatedJob } from "./failures/simulated-job.ts";

const NAME = "read-twice";
const KEY = { kind: "Job", name: NAME };
/** Requests go to any replica: so many in a row have been with both. */
const ASKED = 20;

for (const server of API_SERVERS) {
  describe.skipIf(server.skip)(`two replicas that answer, under ${server.title}`, { timeout: 240_000 }, () => {
    let world: FailureWorld;

    beforeAll(async () => {
      world = await failureWorld(server);
    }, 240_000);

    afterAll(() => world[Symbol.asyncDispose]());

    const listed = async (): Promise<string | null | undefined> => {
      const { jobs } = await world.jobs.listJobs({});
      return jobs.find(({ key }) => key?.name === NAME)?.state;
    };
    const stateOf = async (): Promise<string | null | undefined> => (await world.jobs.getJob({ key: KEY })).job?.state;

    it("never answer with an older state than an earlier answer, though one is behind and no replica leads", async () => {
      const leader = await world.startReplica();
      await until("one leads", async () => (await world.leaderPid()) === leader.pid, { timeoutMs: 60_000 });
      const follows = { who: ["deaf"], verbs: ["watch"], resources: ["jobs"] } as const;
      await world.api.inject({ id: "follows", match: follows, fault: { do: "delay", ms: 1 } });
      await world.startReplica("deaf");
      const isFollowing = async (): Promise<boolean> => {
        const { rules } = await world.api.counters();
        return rules.some(({ id, matched }) => id === "follows" && matched > 0);
      };
      await until("the other one follows", isFollowing, { timeoutMs: 60_000 });
      await world.create(simulatedJob(NAME, { worker: replicaType([]) }));
      await world.untilCondition(NAME, "Running");
      const bothKnow = async (): Promise<boolean> => {
        const states = await Promise.all(Array.from({ length: ASKED }, listed));
        return states.every((state) => state === "RUNNING");
      };
      await until("both know that it runs", bothKnow, { timeoutMs: 60_000 });
      const { job: before } = await world.jobs.getJob({ key: KEY });
      await world.api.silenceWatches({ who: ["deaf"] });
      world.finish([`${NAME}-worker-0`]);

      const done = await world.untilCondition(NAME, "Succeeded");
      expect(await stateOf()).toBe("SUCCEEDED");
      await leader.kill();
      // Its copy is as it was: it is this one that answers.
      await until("only the other one answers", async () => (await listed()) === "RUNNING");
      expect(await stateOf()).toBe("SUCCEEDED");
      const watched = await world.jobs.watchJob({ key: KEY, afterRevision: before?.revision ?? "", waitMs: 20_000 });
      expect(watched.job?.state).toBe("SUCCEEDED");
      expect(watched.job?.members.map(({ state }) => state)).toEqual(["SUCCEEDED"]);

      const { job: cancelled } = await world.jobs.cancelJob({ requestId: "late", key: KEY });
      expect(cancelled?.state).toBe("SUCCEEDED");
      expect((await world.get(NAME))?.metadata).toEqual(done.metadata);
      const refused = world.jobs.getJob({ key: { kind: "Job", name: "never-made" } });
      await expect(refused).rejects.toMatchObject({ fault: { code: "not_found" } });
    });
  });
}
