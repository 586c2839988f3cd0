import { until } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { EMBEDDED } from "./api-servers.ts";
import { openScriptedCluster, type ScriptedCluster } from "./scripted-cluster.ts";
import { slowApi } from "./slow-api.ts";
import {
  listEvents,
  waitUntilNothingLeft,
  expectNothingLeft,
  waitUntilFinished,
  RAN,
  waitForEvent,
  openSessionWorld,
  readStoredRecord,
  submitSession,
  makeTrio,
  type Controller,
  type SessionWorld,
} from "./world.ts";

const POOLS = { drivers: 1, workers: 2 };
const NO_SWEEP = { SESSION_SWEEP_MS: "86400000" };

describe("a controller that is suspended (SIGSTOP) and continued", () => {
  let world: SessionWorld<ScriptedCluster>;

  beforeAll(async () => {
    world = await openSessionWorld(await openScriptedCluster(await EMBEDDED.start(), POOLS), POOLS);
  });

  afterAll(async () => {
    await world[Symbol.asyncDispose]();
  });

  async function runBy(name: string, controller: Controller): Promise<void> {
    await until(`${name} is run by ${controller.pid}`, async () =>
      (await readStoredRecord(world, name)).executor.includes(`-${controller.pid}-`),
    );
  }

  /** The request may reach a stopped controller, so it is repeated until one answers. */
  async function cancelAndWait(name: string): Promise<void> {
    await until(`the cancellation of ${name} is accepted`, () =>
      world.sessions.cancelSession({ requestId: "c", name }, { timeoutMs: 1000 }).then(
        () => true,
        () => false,
      ),
    );
    await until(`${name} is over`, async () => ((await readStoredRecord(world, name)).session?.finishedAtMs ?? 0) > 0);
  }

  it.each(["PROVISION", "RUN"])(
    "creates no late pod if it was stopped at %s and resumes after the end",
    async (event) => {
      const controllers = [await world.startController(), await world.startController()];
      const name = `stopped-at-${event.toLowerCase()}`;
      await submitSession(world, name, makeTrio("serve"));
      await waitForEvent(world, name, event);
      const { executor } = await readStoredRecord(world, name);
      const sleeper = controllers.find(({ pid }) => executor.includes(`-${pid}-`));
      const other = controllers.find(({ pid }) => !executor.includes(`-${pid}-`));
      if (sleeper === undefined || other === undefined) throw new Error("the session names no controller");
      process.kill(sleeper.pid, "SIGSTOP");
      await runBy(name, other);
      await waitForEvent(world, name, "RUN");
      await cancelAndWait(name);
      await other.kill();
      process.kill(sleeper.pid, "SIGCONT");
      // The resumed controller runs the next session, so it has left this one.
      const next = `after-${name}`;
      await until(`${next} is accepted`, () =>
        submitSession(world, next, makeTrio("exit", "0")).then(
          () => true,
          () => false,
        ),
      );
      expect(listEvents(await waitUntilFinished(world, next))).toEqual([...RAN, "DONE"]);
      expect(listEvents(await waitUntilFinished(world, name))).toEqual([...RAN, "CANCELLED"]);
      expect(world.cluster.bound.filter((pod) => pod.startsWith(name)).toSorted()).toEqual(
        ["client-0", "driver", "server-0"].map((component) => `${name}-${component}`),
      );
      await waitUntilNothingLeft(world);
      await sleeper.kill();
    },
  );

  it.each([
    ["wakes-up", "removes the pod itself", "SIGCONT"],
    ["dies", "has the pod removed by a sweep that it wakes", "SIGKILL"],
  ] as const)("that creates a pod late, which is never scheduled, and that %s, %s", async (title, _then, signal) => {
    const name = `late-${title}`;
    await using slow = await slowApi(world.cluster.kubeconfig);
    const sleeper = await world.startController({ ...NO_SWEEP, MUSTER_KUBECONFIG: slow.kubeconfig });
    const held = slow.hold(`${name}-client-0`);
    await submitSession(world, name, makeTrio("serve"));
    await held.arrived;
    process.kill(sleeper.pid, "SIGSTOP");
    const other = await world.startController(NO_SWEEP);
    await runBy(name, other);
    await waitForEvent(world, name, "RUN");
    await cancelAndWait(name);
    await expectNothingLeft(world);

    if (signal === "SIGKILL") await sleeper.kill();
    expect(await held.release()).toBe(201);
    if (signal === "SIGCONT") process.kill(sleeper.pid, signal);
    await waitUntilNothingLeft(world);
    expect(world.cluster.bound.filter((pod) => pod === `${name}-client-0`)).toHaveLength(1);
    expect(listEvents((await readStoredRecord(world, name)).session ?? {})).toEqual([...RAN, "CANCELLED"]);
    await other.kill();
    await sleeper.kill();
  });

  it("that had not confirmed a pod leaves it to its successor", async () => {
    const name = "unconfirmed";
    await using slow = await slowApi(world.cluster.kubeconfig);
    const sleeper = await world.startController({ ...NO_SWEEP, MUSTER_KUBECONFIG: slow.kubeconfig });
    const held = slow.hold(`${name}-client-0`, "PATCH");
    await submitSession(world, name, makeTrio("serve"));
    await held.arrived;
    process.kill(sleeper.pid, "SIGSTOP");
    expect(world.cluster.bound).not.toContain(`${name}-client-0`);
    const other = await world.startController(NO_SWEEP);
    await waitForEvent(world, name, "RUN");
    await cancelAndWait(name);
    await expectNothingLeft(world);

    expect(await held.release()).toBe(404);
    process.kill(sleeper.pid, "SIGCONT");
    await waitUntilNothingLeft(world);
    expect(world.cluster.bound.filter((pod) => pod === `${name}-client-0`)).toHaveLength(1);
    expect(listEvents((await readStoredRecord(world, name)).session ?? {})).toEqual([...RAN, "CANCELLED"]);
    await other.kill();
    await sleeper.kill();
  });

  it("continues the session when its successor dies, without a sweep", async () => {
    const first = await world.startController(NO_SWEEP);
    await submitSession(world, "to-and-fro", makeTrio("serve"));
    await waitForEvent(world, "to-and-fro", "RUN");
    const second = await world.startController(NO_SWEEP);
    process.kill(first.pid, "SIGSTOP");
    await runBy("to-and-fro", second);
    process.kill(first.pid, "SIGCONT");
    await second.kill();
    await runBy("to-and-fro", first);
    await cancelAndWait("to-and-fro");
    expect(listEvents(await waitUntilFinished(world, "to-and-fro"))).toEqual([...RAN, "CANCELLED"]);
    await first.kill();
  });
});
