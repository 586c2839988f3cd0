import { expect, it } from "vitest";
import { until } from "@muster/testkit";
import type { Controller } from "../job-world.ts";
import { collectGarbage, type FailureWorld } from "./failure-world.ts";
import { buildReplicaType, makeSimulatedJob, listTrueConditions } from "./simulated-job.ts";

/** The first ten pods are created, and further requests wait until their client disconnects. */
const HOLD_MOST_PODS = {
  id: "most-pods",
  match: { verbs: ["create"], resources: ["pods"] },
  after: 10,
  fault: { do: "delay", ms: 3_600_000 },
} as const;
const FIFTY = Array.from({ length: 50 }, (_, index) => index);

export type Replicas = {
  /** Two replicas run before and after each test. */
  readonly world: () => FailureWorld;
  readonly replicas: () => Controller[];
};

/** Failures of the processes, the bus and the API server while jobs run; one after the other, because each affects all jobs. */
export function describeBadLuck({ world, replicas }: Replicas): void {
  const leader = async (): Promise<Controller> =>
    until("a replica leads", async () => {
      const leaderPid = await world().leaderPid();
      return replicas().find(({ pid }) => pid === leaderPid);
    });
  const replace = async (gone: Controller): Promise<void> => {
    replicas().splice(replicas().indexOf(gone), 1, await world().startReplica());
  };

  /** Checks that each index has had exactly one pod, and that the job has one end. */
  async function expectOneRun(name: string): Promise<void> {
    const done = await world().untilCondition(name, "Succeeded");
    expect(listTrueConditions(done)).toEqual(["Created", "Succeeded"]);
    expect(done.status).toMatchObject({ completions: "50/50", restarts: 0 });
    const pods = await world().pods(name);
    expect(
      pods.map(({ metadata }) => Number(metadata?.labels?.["muster.dev/replica-index"])).sort((a, b) => a - b),
    ).toEqual(FIFTY);
    await collectGarbage(world(), done);
  }

  it("creates exactly fifty pods, each index once, though the leader is killed in between", async () => {
    const { create, pods, api } = world();
    const first = await leader();
    await api.inject(HOLD_MOST_PODS);
    await create(
      makeSimulatedJob("killed", { worker: buildReplicaType(["--run-ms=6000"], { replicas: 50, pool: "crowd" }) }),
    );
    await until("some pods are created", async () => (await pods("killed")).length > 0, { everyMs: 1 });
    await first.kill();
    const uids = async (): Promise<(string | undefined)[]> =>
      (await pods("killed")).map(({ metadata }) => metadata?.uid);
    const before = await uids();
    expect(before.length).toBeLessThan(50);
    await api.remove(HOLD_MOST_PODS.id);
    await until("the other replica has created the rest", async () => (await uids()).length === 50, {
      timeoutMs: 60_000,
    });
    expect(await uids()).toEqual(expect.arrayContaining(before));
    await expectOneRun("killed");
    await replace(first);
  });

  it("creates no pod twice when a leader is frozen past its lock and continues", async () => {
    const { create, pods, api } = world();
    const first = await leader();
    await api.inject(HOLD_MOST_PODS);
    await create(
      makeSimulatedJob("frozen", { worker: buildReplicaType(["--run-ms=6000"], { replicas: 50, pool: "crowd" }) }),
    );
    await until("some pods are created", async () => (await pods("frozen")).length > 3, { everyMs: 1 });
    process.kill(first.pid, "SIGSTOP");
    await api.remove(HOLD_MOST_PODS.id);
    const seen = new Map<string, string>();
    const note = async (): Promise<number> => {
      for (const { metadata } of await pods("frozen")) {
        const { name = "", uid = "" } = metadata ?? {};
        expect(seen.get(name) ?? uid).toBe(uid);
        seen.set(name, uid);
      }
      return seen.size;
    };
    await until("the other replica has created the rest", async () => (await note()) === 50, { timeoutMs: 60_000 });
    process.kill(first.pid, "SIGCONT");
    await expectOneRun("frozen");
    expect(await note()).toBe(50);
    // The first leader has exited or follows, because a leader that lost its lock never continues to lead.
    await first.kill();
    await replace(first);
  });

  it("keeps jobs running while the API server fails for it, and finishes them afterwards", async () => {
    const { create, finish, untilRunning, untilCondition, api, untilReturned } = world();
    const job = await create(makeSimulatedJob("cut-off", { worker: buildReplicaType([], { replicas: 3 }) }));
    const members = [0, 1, 2].map((index) => `cut-off-worker-${index}`);
    for (const member of members) await untilRunning(member);
    await api.goAway(600_000);
    finish(members);
    await world().untilPod("cut-off-worker-2", ({ status }) => status?.phase === "Succeeded");
    await api.comeBack();
    const done = await untilCondition("cut-off", "Succeeded");
    expect(done.status).toMatchObject({ completions: "3/3", restarts: 0 });
    await untilReturned(job);
  });

  it("runs a job to its end after the bus failed in between", async () => {
    const { create, finish, untilRunning, untilCondition, nats, untilReturned } = world();
    const job = await create(makeSimulatedJob("busless", { worker: buildReplicaType([], { replicas: 2 }) }));
    const members = ["busless-worker-0", "busless-worker-1"];
    for (const member of members) await untilRunning(member);
    await nats.kill();
    finish(members);
    const late = await create(makeSimulatedJob("busless-too", { worker: buildReplicaType(["--run-ms=50"]) }));
    await world().untilPod("busless-worker-1", ({ status }) => status?.phase === "Succeeded");
    await nats.start();
    await untilCondition("busless", "Succeeded");
    await untilCondition("busless-too", "Succeeded");
    await untilReturned(job);
    await untilReturned(late);
  });

  it("runs a job that was submitted while the ledger was down", async () => {
    const { create, untilCondition, untilPasses, firstLedger, startLedger, pods } = world();
    await firstLedger.kill();
    await create(makeSimulatedJob("unheld", { worker: buildReplicaType(["--run-ms=50"], { replicas: 2 }) }));
    await untilPasses(1);
    expect(await pods("unheld")).toEqual([]);
    await startLedger();
    const done = await untilCondition("unheld", "Succeeded");
    expect(listTrueConditions(done)).toEqual(["Created", "Succeeded"]);
  });

  it("releases the machines of a job that was deleted while no controller ran", async () => {
    const { create, untilRunning, removeWhole, untilReturned } = world();
    const job = await create(makeSimulatedJob("unseen", { worker: buildReplicaType([], { replicas: 2 }) }));
    await untilRunning("unseen-worker-1");
    await Promise.all(replicas().map((replica) => replica.kill()));
    await removeWhole("unseen");
    replicas().splice(0, 2, ...(await Promise.all([world().startReplica(), world().startReplica()])));
    await untilReturned(job);
  });
}
