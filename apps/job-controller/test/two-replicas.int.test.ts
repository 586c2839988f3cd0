import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { until } from "@muster/testkit";
import { API_SERVERS } from "./api-servers.ts";
import { openFailureWorld, type FailureWorld } from "./failures/failure-world.ts";
import { buildReplicaType, makeSimulatedJob } from "./failures/simulated-job.ts";
import type { Controller } from "./job-world.ts";

const NAME = "read-twice";
const KEY = { kind: "Job", name: NAME };
/** Any replica answers a request: after this many requests, both have answered. */
const ASKED = 20;

for (const server of API_SERVERS) {
  describe.skipIf(server.skip)(`two replicas that answer, under ${server.title}`, { timeout: 240_000 }, () => {
    let world: FailureWorld;

    beforeAll(async () => {
      world = await openFailureWorld(server);
    }, 240_000);

    afterAll(() => world[Symbol.asyncDispose]());

    const listed = async (name: string): Promise<string | null | undefined> => {
      const { jobs } = await world.jobs.listJobs({});
      return jobs.find(({ key }) => key?.name === name)?.state;
    };
    const matched = async (rule: string): Promise<number> => {
      const { rules } = await world.api.counters();
      return rules.find(({ id }) => id === rule)?.matched ?? 0;
    };
    const stateOf = async (): Promise<string | null | undefined> => (await world.jobs.getJob({ key: KEY })).job?.state;

    const startFollower = async (): Promise<Controller> => {
      const follows = { who: ["deaf"], verbs: ["watch"], resources: ["jobs"] } as const;
      await world.api.inject({ id: "follows", match: follows, fault: { do: "delay", ms: 1 } });
      const follower = await world.startReplica("deaf");
      await until("the other replica follows", async () => (await matched("follows")) > 0, { timeoutMs: 60_000 });
      return follower;
    };
    const startLeader = async (): Promise<Controller> => {
      const leader = await world.startReplica();
      await until("one replica leads", async () => (await world.leaderPid()) === leader.pid, { timeoutMs: 60_000 });
      return leader;
    };
    const bothKnowThatItRuns = async (name: string): Promise<void> => {
      const bothKnow = async (): Promise<boolean> => {
        const states = await Promise.all(Array.from({ length: ASKED }, () => listed(name)));
        return states.every((state) => state === "RUNNING");
      };
      await until("both replicas know that the job runs", bothKnow, { timeoutMs: 60_000 });
    };

    it("create no pod of a finished job when a replica with a stale cache takes over", async () => {
      const leader = await startLeader();
      const follower = await startFollower();
      const name = "run-once";
      await world.create(
        makeSimulatedJob(name, { worker: buildReplicaType([]) }, { runPolicy: { cleanPodPolicy: "All" } }),
      );
      await world.untilCondition(name, "Running");
      await bothKnowThatItRuns(name);
      await world.api.silenceWatches({ who: ["deaf"], resources: ["jobs"] });
      world.finish([`${name}-worker-0`]);
      const done = await world.untilCondition(name, "Succeeded");
      await until("its pod is deleted", async () => (await world.pods(name)).length === 0, { timeoutMs: 60_000 });
      await world.untilReturned(done);
      const count = { fault: { do: "delay", ms: 1 } } as const;
      await world.api.inject(
        { id: "creates", match: { who: ["deaf"], verbs: ["create"], resources: ["pods"] }, ...count },
        { id: "reads", match: { who: ["deaf"], verbs: ["get"], resources: ["jobs"] }, ...count },
      );
      await leader.kill();
      // In the stale cache the job still runs, and the pod no longer exists: the replica reads the job before it creates the pod.
      await until("the replica has read the job", async () => (await matched("reads")) > 0, { timeoutMs: 60_000 });
      await world.api.dropWatches({ who: ["deaf"], resources: ["jobs"] });
      await world.untilReturned(done);
      await until("the replica knows the end", async () => (await listed(name)) === "SUCCEEDED", { timeoutMs: 60_000 });
      expect(await matched("creates")).toBe(0);
      await follower.kill();
      await world.api.remove();
    });

    it("never answer with an older state than an earlier answer, though one cache is stale and no replica leads", async () => {
      const leader = await startLeader();
      await startFollower();
      await world.create(makeSimulatedJob(NAME, { worker: buildReplicaType([]) }));
      await world.untilCondition(NAME, "Running");
      await bothKnowThatItRuns(NAME);
      const { job: before } = await world.jobs.getJob({ key: KEY });
      await world.api.silenceWatches({ who: ["deaf"] });
      world.finish([`${NAME}-worker-0`]);

      const done = await world.untilCondition(NAME, "Succeeded");
      expect(await stateOf()).toBe("SUCCEEDED");
      await leader.kill();
      // The stale cache is unchanged, so the answers come from this replica.
      await until("only the stale replica answers", async () => (await listed(NAME)) === "RUNNING");
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
