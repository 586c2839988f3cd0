import { until } from "@muster/testkit";
import { describe, expect, it } from "vitest";
import { fakeWorld, Killed } from "../test/fake-world.ts";
import { runSession } from "./executor.ts";

/** Short, so that a test that waits for pods to go waits a moment only. */
const POLICY = { askAgainMs: 5, cleanupLimitMs: 1000, lookAgainMs: 1 };
const never = new AbortController().signal;

function run(world: ReturnType<typeof fakeWorld>, executor = "controller-a", signal = never) {
  return runSession(world.deps(executor), POLICY, world.session, signal);
}

describe("runSession", () => {
  it("brings a session from the queue to its end and then stays quiet", async () => {
    const world = fakeWorld();
    expect(await run(world)).toBe("finished");
    expect([...world.published.values()]).toEqual(["QUEUE", "ACCEPT", "PROVISION", "RUN", "DONE"]);
    expect(world.record()).toMatchObject({ resultJson: '{"qps":1}', warnings: [], released: true, waitingBecause: "" });
    const before = world.record();
    world.calls.length = 0;
    expect(await run(world)).toBe("finished");
    expect(world.record()).toBe(before);
  });

  it("goes on where another died, wherever that was", async () => {
    const undisturbed = fakeWorld();
    await run(undisturbed);
    const places = undisturbed.calls.length;
    expect(places).toBeGreaterThan(30);
    for (let place = 0; place <= places; place += 1) {
      const world = fakeWorld();
      world.state.dieAt = place;
      await run(world).catch((error: unknown) => expect(error).toBeInstanceOf(Killed));
      world.state.dieAt = Infinity;
      expect(await run(world, "controller-b"), `died at call ${place}`).toBe("finished");
      expect(world.record().events.map(({ kind }) => kind)).toEqual(["QUEUE", "ACCEPT", "PROVISION", "RUN", "DONE"]);
      expect([...world.published.values()]).toEqual(["QUEUE", "ACCEPT", "PROVISION", "RUN", "DONE"]);
      expect(world.pods.size).toBe(3);
      expect(world.state.held).toBe(false);
    }
  });

  it("gets over everything that is away for a while", async () => {
    for (const call of ["list", "reserve", "create-pod", "delete-pod", "release", "announce"]) {
      const world = fakeWorld();
      world.state.failing.add(call);
      const running = run(world);
      await until(`${call} was tried`, () => world.calls.includes(call));
      world.state.failing.clear();
      expect(await running).toBe("finished");
      expect(world.record().events.at(-1)?.kind).toBe("DONE");
    }
  });

  it("says what it waits for while the ledger is away", async () => {
    const world = fakeWorld();
    world.state.failing.add("reserve");
    const running = run(world);
    await until("the wait is explained", () => world.record().waitingBecause === "reserve is not available");
    world.state.failing.clear();
    expect(await running).toBe("finished");
    expect(world.record().waitingBecause).toBe("");
  });

  it("stops without a further write when another executor has taken the session over", async () => {
    const world = fakeWorld({ behave: () => ({ health: "READY" }) });
    const running = run(world);
    await until("it runs", () => world.record().events.some(({ kind }) => kind === "RUN"));
    world.takeAway();
    expect(await running).toBe("lost");
    expect(world.record().executor).toBe("another");
  });

  it("notices a cancellation at once, and ends as cancelled", async () => {
    const world = fakeWorld({ behave: () => ({ health: "READY" }) });
    const running = run(world);
    await until("it runs", () => world.record().events.some(({ kind }) => kind === "RUN"));
    world.cancel();
    expect(await running).toBe("finished");
    expect(world.record().events.at(-1)?.kind).toBe("CANCELLED");
  });

  it("takes the grant that it is told of", async () => {
    const world = fakeWorld();
    world.state.grant = false;
    const running = run(world);
    await until("it waits", () => world.record().waitingBecause !== "");
    world.state.grant = true;
    world.wakeups.granted("bench");
    expect(await running).toBe("finished");
  });

  it("withdraws exactly the request that it has waiting when it is cancelled", async () => {
    const world = fakeWorld();
    world.state.grant = false;
    const running = run(world);
    await until("it waits", () => world.record().waitingBecause !== "");
    world.cancel();
    expect(await running).toBe("finished");
    expect(world.record()).toMatchObject({ reservationId: "r-1", released: true });
    expect(world.calls).toContain("release done");
  });

  it("leaves the session as it is when it is told to stop", async () => {
    const world = fakeWorld({ behave: () => ({ health: "READY" }) });
    const stop = new AbortController();
    const running = run(world, "controller-a", stop.signal);
    await until("it runs", () => world.record().events.some(({ kind }) => kind === "RUN"));
    stop.abort();
    expect(await running).toBe("stopped");
    expect(world.record().verdict).toBeUndefined();
    expect(world.pods.size).toBe(3);
  });

  it("has nothing to do for a session that is not there, or that is another of that name", async () => {
    const world = fakeWorld();
    expect(await runSession(world.deps("a"), POLICY, { name: "bench", uid: "u-0" }, never)).toBe("gone");
    expect(world.record().epoch).toBe(0);
  });
});
