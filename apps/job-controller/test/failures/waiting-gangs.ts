import { expect, it } from "vitest";
import { until } from "@muster/testkit";
import type { FailureWorld } from "./failure-world.ts";
import { buildReplicaType, makeSimulatedJob } from "./simulated-job.ts";

/** Tests gangs that wait for machines of others. */
export function describeWaitingGangs(world: () => FailureWorld): void {
  it("creates no pod before all machines are granted, runs in turn, and frees its position when it is deleted", async () => {
    const { create, get, pods, untilRunning, untilCondition, untilPasses, removeWhole, untilReturned, heldBy } =
      world();
    const of = (name: string, replicas: number, flags: readonly string[] = []): ReturnType<typeof makeSimulatedJob> =>
      makeSimulatedJob(name, { worker: buildReplicaType(flags, { replicas, pool: "tight" }) });
    const holder = await create(of("holder", 1));
    await untilRunning("holder-worker-0");
    const waiter = await create(of("waiter", 2, ["--run-ms=100"]));
    const waits = async (): Promise<boolean> =>
      (await get("waiter"))?.status?.conditions?.some(
        ({ type, status }) => type === "MachinesReserved" && status === "False",
      ) === true;
    await until("a condition states that it waits", waits);
    const quitter = await create(of("quitter", 2));
    await until("the other job waits too", async () => (await heldBy(quitter)) === 1);
    await untilPasses(2);
    expect(await pods("waiter")).toEqual([]);
    await removeWhole("quitter");
    await untilReturned(quitter);
    await removeWhole("holder");
    await untilReturned(holder);
    await untilCondition("waiter", "Succeeded");
    await untilReturned(waiter);
  });
}
