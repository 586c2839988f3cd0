import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { until } from "@muster/testkit";
import { API_SERVERS } from "./api-servers.ts";
import { openFailureWorld, type FailureWorld } from "./failures/failure-world.ts";
import { buildReplicaType, makeSimulatedJob } from "./failures/simulated-job.ts";

const MEMBERS = 50;
/** The numbers of requests after which each batch of members ends; each batch is twice as large as the previous one. */
const SLICE_ENDS = [3, 7, 15, 31];
const FROZEN = "frozen";
const WRITES = {
  who: [FROZEN],
  verbs: ["create", "update", "patch", "delete"],
  resources: ["pods", "services", "poddisruptionbudgets", "jobs", "jobs/status"],
} as const;

for (const server of API_SERVERS) {
  describe.skipIf(server.skip)(`a leader that is frozen past its lock, under ${server.title}`, () => {
    let world: FailureWorld;

    beforeAll(async () => {
      world = await openFailureWorld(server);
    }, 240_000);

    afterAll(() => world[Symbol.asyncDispose]());

    const matched = async (rule: string): Promise<number> => {
      const { rules } = await world.api.counters();
      return rules.find(({ id }) => id === rule)?.matched ?? 0;
    };

    it(
      "writes nothing once it continues, and the other one has made each member once",
      { timeout: 400_000 },
      async () => {
        await world.api.inject({ id: "writes", match: WRITES, fault: { do: "delay", ms: 1 } });
        // The replica is stopped while it waits for late answers, with no request half sent; its successor is not delayed.
        const pods = { who: [FROZEN], verbs: ["create"], resources: ["pods"] } as const;
        await world.api.inject({ id: "pods", match: pods, fault: { do: "delay", ms: 3000 } });
        await world.api.inject({
          id: "looks",
          match: { who: [FROZEN], verbs: ["list"], resources: ["jobs"] },
          fault: { do: "delay", ms: 1 },
        });
        const leader = await world.startReplica(FROZEN);
        await until("it leads", async () => (await world.leaderPid()) === leader.pid, { timeoutMs: 60_000 });
        await world.startReplica();
        const uids = new Map<string, Set<string>>();
        const look = async (): Promise<number> => {
          for (const { metadata } of await world.pods("gang")) {
            const { name = "", uid = "" } = metadata ?? {};
            uids.set(name, (uids.get(name) ?? new Set()).add(uid));
          }
          return uids.size;
        };
        const worker = buildReplicaType(["--run-ms=60000"], { replicas: MEMBERS, pool: "crowd" });
        await world.create(makeSimulatedJob("gang", { worker }));
        const isBetweenSlices = async (): Promise<boolean> => SLICE_ENDS.includes(await matched("pods"));
        await until("the leader waits for some members", isBetweenSlices, { timeoutMs: 120_000, everyMs: 1 });
        process.kill(leader.pid, "SIGSTOP");
        const madeBefore = await look();
        await until("the other replica has created the rest", async () => (await look()) === MEMBERS, {
          timeoutMs: 120_000,
        });
        const written = await matched("writes");
        const looked = await matched("looks");
        process.kill(leader.pid, "SIGCONT");
        // One list may come from the cache; two polls are half a second apart.
        const hasGoneOn = async (): Promise<boolean> => isGone(leader.pid) || (await matched("looks")) >= looked + 3;
        await until("the replica has observed that it does not lead", hasGoneOn, { timeoutMs: 60_000 });
        expect(await matched("writes")).toBe(written);
        expect(madeBefore).toBeLessThan(MEMBERS);
        expect(await look()).toBe(MEMBERS);
        expect([...uids.values()].filter(({ size }) => size !== 1)).toEqual([]);
      },
    );
  });
}

function isGone(pid: number): boolean {
  try {
    return !process.kill(pid, 0);
  } catch {
    return true;
  }
}
