import { FaultError } from "@muster/faults";
import { until } from "@muster/testkit";
import { describe, expect, it } from "vitest";
import { fakeWorld, Killed } from "../test/fake-world.ts";
import { component, spec, START_MS } from "../test/samples.ts";
import type { SessionRecord } from "./domain/session.ts";
import { runSession, type ExecutorDeps } from "./executor.ts";

/** Short, so that a test that waits for pods to go waits a moment only. */
const POLICY = {
  cleanupLimitMs: 1000,
  lookAgainMs: 1,
  trustRecordMs: 500,
  nodeLostMs: 300_000,
  replacementWaitMs: 120_000,
};
const CANCELLED = { kind: "CANCELLED", atMs: 1, description: "", reason: "" } as const;
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

  /** Runs the session in a process that dies while it asks the ledger. */
  async function dyingRun(world: ReturnType<typeof fakeWorld>, executor: string): Promise<void> {
    const asked = Promise.withResolvers<undefined>();
    const act: ExecutorDeps["act"] = () => {
      asked.resolve(undefined);
      return Promise.withResolvers<never>().promise;
    };
    void runSession({ ...world.deps(executor), act }, POLICY, world.session, never);
    await asked.promise;
  }

  it("ends a session that has ended five executors in a row, and cleans up after it", async () => {
    const world = fakeWorld();
    for (let process = 1; process <= 5; process += 1) await dyingRun(world, `controller-${process}`);
    expect(await run(world, "controller-6")).toBe("finished");
    expect(world.record().events.at(-1)).toMatchObject({
      kind: "INTERNAL_ERROR",
      description: "the session cannot be run: it ended its controller 5 times in a row",
    });
    expect(world.made).toEqual([]);
    expect(world.record().released).toBe(true);
  });

  it("forgets the executors that a session has ended once one gets further", async () => {
    const world = fakeWorld();
    for (let process = 1; process <= 4; process += 1) await dyingRun(world, `controller-${process}`);
    expect(world.record().attempts).toBe(4);
    expect(await run(world, "controller-5")).toBe("finished");
    expect(world.record()).toMatchObject({ attempts: 0, verdict: { kind: "DONE" } });
  });

  it("counts no executor that is stopped, however many are", async () => {
    const world = fakeWorld();
    world.state.failing.add("reserve");
    for (let process = 1; process <= 7; process += 1) {
      const stop = new AbortController();
      world.calls.length = 0;
      const running = run(world, `controller-${process}`, stop.signal);
      await until("it was tried", () => world.calls.includes("reserve"));
      stop.abort();
      expect(await running).toBe("stopped");
      expect(world.record().attempts).toBe(0);
    }
  });

  it("takes a session that may have ended its executors over only after another such session has turned out well", async () => {
    const [first, second] = [fakeWorld(), fakeWorld()];
    for (const world of [first, second]) world.write({ ...world.record(), attempts: 2 });
    const { suspects } = first.deps("controller-a");
    const asked = Promise.withResolvers<undefined>();
    const answer = Promise.withResolvers<undefined>();
    const deps = first.deps("controller-a");
    const act: ExecutorDeps["act"] = async (...step) => {
      asked.resolve(undefined);
      await answer.promise;
      return deps.act(...step);
    };
    const running = runSession({ ...deps, act }, POLICY, first.session, never);
    await asked.promise;
    const waiting = runSession({ ...second.deps("controller-a"), suspects }, POLICY, second.session, never);
    await until("it waits", () => second.calls.includes("load done"));
    await new Promise(setImmediate);
    expect(second.record().epoch).toBe(0);
    answer.resolve(undefined);
    expect(await Promise.all([running, waiting])).toEqual(["finished", "finished"]);
  });

  it("leaves a session that waits for such a turn when it is stopped", async () => {
    const world = fakeWorld();
    world.write({ ...world.record(), attempts: 2 });
    const stop = new AbortController();
    const { suspects } = world.deps("controller-a");
    const busy = Promise.withResolvers<undefined>();
    const other = suspects(() => busy.promise);
    const running = run(world, "controller-a", stop.signal);
    await until("it waits", () => world.calls.includes("load done"));
    stop.abort();
    expect(await running).toBe("stopped");
    expect(world.record()).toMatchObject({ epoch: 0, attempts: 2 });
    busy.resolve(undefined);
    await other;
  });

  it("counts the end of a session that it takes over and finishes in its first pass, and nothing before it", async () => {
    const world = fakeWorld();
    const events = (["QUEUE", "ACCEPT", "PROVISION", "RUN"] as const).map((kind) => {
      return { kind, atMs: START_MS, description: "", reason: "" } as const;
    });
    const clean = { verdict: CANCELLED, logsCollected: true, podsDeleted: true, released: true };
    world.write({ ...world.record(), ...clean, events });
    expect(await run(world)).toBe("finished");
    expect(world.counted).toEqual(["CANCELLED"]);
    expect([...world.published.values()]).toEqual(["QUEUE", "ACCEPT", "PROVISION", "RUN", "CANCELLED"]);
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

  it("rests between the writes that a full store refuses, and stops at the signal", async () => {
    const world = fakeWorld();
    const stop = new AbortController();
    const deps = world.deps("controller-a");
    const full = { code: "limit_exceeded", what: "size of bucket sessions", limit: 9, retryAfterMs: 1000 } as const;
    const calls: string[] = [];
    const crowded: ExecutorDeps = {
      ...deps,
      save: (record, revision) => {
        if (world.record().epoch === 0) return deps.save(record, revision);
        calls.push("save");
        return Promise.reject(calls.length > 20 ? new Error("written without a pause") : new FaultError(full));
      },
      wake: (name) => ({
        ...deps.wake(name),
        wait: () => {
          calls.push("rest");
          if (calls.length >= 6) stop.abort();
          return Promise.resolve({ revision: 0, podsChanged: false, granted: false });
        },
      }),
    };
    expect(await runSession(crowded, POLICY, world.session, stop.signal)).toBe("stopped");
    // The first pass has nothing to write yet.
    expect(calls.filter((_, index) => calls[index - 1] === calls[index])).toEqual([]);
    expect(calls).toContain("save");
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

  it.each(["reserve", "create-pod", "collect-logs", "delete-pod", "release"])(
    "does no %s after a pause in which another executor has taken the session over",
    async (call) => {
      const world = fakeWorld();
      const deps = world.deps("controller-a");
      let replaced = false;
      const stopped: ExecutorDeps = {
        ...deps,
        // The process stops between deciding on the step and doing it.
        logger: {
          ...deps.logger,
          info: (fields) => {
            if (replaced || !JSON.stringify(fields).includes(`"do":"${call}"`)) return;
            replaced = true;
            world.takeAway();
            world.state.monotonicMs += POLICY.trustRecordMs + 1;
            world.calls.length = 0;
          },
        },
      };
      expect(await runSession(stopped, POLICY, world.session, never)).toBe("lost");
      expect(replaced).toBe(true);
      expect(world.calls).not.toContain(call);
      expect(world.record().executor).toBe("another");
    },
  );

  it.each([
    ["removes them when its successor has looked for pods already", { verdict: CANCELLED, logsCollected: true }, []],
    [
      "leaves them to its successor until their logs are kept",
      { verdict: CANCELLED },
      ["bench-server-0", "bench-server-1"],
    ],
    ["leaves them to its successor while the session runs on", {}, ["bench-server-0", "bench-server-1"]],
  ] as const)("whose pods were made after it was replaced %s", async (_title, taken, left) => {
    const components = [
      component("server-0", "server"),
      component("server-1", "server"),
      component("driver", "driver"),
    ];
    const world = fakeWorld({ spec: spec({ components }) });
    const deps = world.deps("controller-a");
    const late: ExecutorDeps = {
      ...deps,
      act: async (record, step) => {
        // Both requests were on their way when the process stopped.
        if (step.do === "create-pod" && world.record().executor !== "another") world.takeAway(taken);
        return deps.act(record, step);
      },
    };
    expect(await runSession(late, POLICY, world.session, never)).toBe("lost");
    const staying = [...world.pods.values()].filter(({ deleting }) => !deleting).map(({ pod }) => pod);
    expect(staying.toSorted()).toEqual(left);
    expect(world.pods.size).toBe(2);
  });

  it.each([
    ["gives back the machines when the session has given them back", { verdict: CANCELLED, released: true }, false],
    ["leaves the machines to its successor, which gives them back", { verdict: CANCELLED }, true],
  ] as const)("whose request for machines was late %s", async (_title, taken, held) => {
    const world = fakeWorld();
    const deps = world.deps("controller-a");
    const late: ExecutorDeps = {
      ...deps,
      act: async (record, step) => {
        if (step.do === "reserve") world.takeAway(taken);
        return deps.act(record, step);
      },
    };
    expect(await runSession(late, POLICY, world.session, never)).toBe("lost");
    expect(world.state.held).toBe(held);
  });

  it("goes on after a pause in which nobody has taken the session over", async () => {
    const world = fakeWorld();
    const deps = world.deps("controller-a");
    const slow: ExecutorDeps = { ...deps, monotonicMs: () => (world.state.monotonicMs += POLICY.trustRecordMs + 1) };
    expect(await runSession(slow, POLICY, world.session, never)).toBe("finished");
    expect(world.pods.size).toBe(3);
  });

  it("notices a cancellation at once, and ends as cancelled", async () => {
    const world = fakeWorld({ behave: () => ({ health: "READY" }) });
    const running = run(world);
    await until("it runs", () => world.record().events.some(({ kind }) => kind === "RUN"));
    world.cancel();
    expect(await running).toBe("finished");
    expect(world.record().events.at(-1)?.kind).toBe("CANCELLED");
  });

  it("keeps no place while the ledger lets it wait, and goes on from there when it is queued again", async () => {
    const world = fakeWorld();
    world.state.grant = false;
    expect(await run(world)).toBe("waiting");
    expect(world.calls.slice(-2)).toEqual(["let go", "let go done"]);
    expect(world.record()).toMatchObject({ reservationId: "r-1", waitingBecause: "the ledger has not said why" });
    world.state.grant = true;
    expect(await run(world, "controller-b")).toBe("finished");
    expect([...world.published.values()]).toEqual(["QUEUE", "ACCEPT", "PROVISION", "RUN", "DONE"]);
  });

  it.each([
    ["a grant", (world: ReturnType<typeof fakeWorld>) => world.wakeups.granted("bench")],
    ["a cancellation", (world: ReturnType<typeof fakeWorld>) => world.cancel()],
  ])(
    "passes %s on that comes while it lets the message go, when nobody could queue the session",
    async (_hint, hear) => {
      const world = fakeWorld();
      world.state.grant = false;
      const letGo = async (): Promise<void> => {
        await world.session.letGo();
        hear(world);
      };
      expect(await runSession(world.deps("a"), POLICY, { ...world.session, letGo }, never)).toBe("waiting");
      expect(world.calls.slice(-1)).toEqual(["enqueue done"]);
    },
  );

  it("takes the grant that comes before it lets the message go", async () => {
    const world = fakeWorld();
    const deps = world.deps("a");
    const told: ExecutorDeps = {
      ...deps,
      act: async (record, step) => {
        world.state.grant = step.do !== "reserve" || world.calls.includes("reserve done");
        const acted = await deps.act(record, step);
        if (!world.state.grant) world.wakeups.granted("bench");
        return acted;
      },
    };
    expect(await runSession(told, POLICY, world.session, never)).toBe("finished");
    expect(world.calls).not.toContain("let go");
  });

  it("withdraws exactly the request that it has waiting when it is cancelled", async () => {
    const world = fakeWorld();
    world.state.grant = false;
    expect(await run(world)).toBe("waiting");
    world.cancel();
    expect(await run(world)).toBe("finished");
    expect(world.record()).toMatchObject({ reservationId: "r-1", released: true });
    expect(world.calls).toContain("release done");
  });

  it("leaves a session alone whose record cannot be read", async () => {
    const world = fakeWorld();
    const load = () => Promise.reject(new FaultError({ code: "internal", operation: "reading session bench" }));
    expect(await runSession({ ...world.deps("a"), load }, POLICY, world.session, never)).toBe("unreadable");
    expect(world.calls).toEqual([]);
  });

  it("ends a session whose pod went away while nobody watched", async () => {
    const world = fakeWorld({ behave: () => ({ health: "READY" }) });
    const stop = new AbortController();
    const first = run(world, "controller-a", stop.signal);
    await until("it runs", () => world.record().events.some(({ kind }) => kind === "RUN"));
    stop.abort();
    await first;
    world.pods.delete("bench-server-0");
    expect(await run(world, "controller-b")).toBe("finished");
    expect(world.record().events.at(-1)).toMatchObject({
      kind: "ERROR",
      reason: "COMPONENT_FAILED",
      description: "server server-0 failed: PodGone: the pod is gone, and nobody saw how it ended",
    });
  });

  it("notices a pod that went away unseen while it runs the session itself", async () => {
    const world = fakeWorld({ behave: () => ({ health: "READY" }) });
    const running = run(world);
    await until("it runs", () => world.record().events.some(({ kind }) => kind === "RUN"));
    world.pods.delete("bench-client-0");
    world.state.monotonicMs += 10_000;
    world.wakeups.podChanged("bench");
    expect(await running).toBe("finished");
    expect(world.record().events.at(-1)?.description).toContain("client client-0 failed: PodGone");
  });

  it("notices a pod that went away after the watchers fell silent, whatever they published before", async () => {
    const world = fakeWorld({ behave: () => ({ health: "READY" }) });
    const running = run(world);
    await until("it runs", () => world.record().events.some(({ kind }) => kind === "RUN"));
    world.state.podsFresh = false;
    const [name, pod] = [...world.pods].find(([pod]) => pod === "bench-client-0") ?? [];
    if (name !== undefined && pod !== undefined) world.pods.set(name, { ...pod, alive: false });
    world.state.monotonicMs += 10_000;
    world.wakeups.podChanged("bench");
    expect(await running).toBe("finished");
    expect(world.record().events.at(-1)?.description).toContain("client client-0 failed: PodGone");
  });

  it("plans nothing from a record that it may have replaced", async () => {
    const world = fakeWorld({ restMsMax: 1 });
    const deps = world.deps("controller-a");
    const unavailable = () => new FaultError({ code: "unavailable", dependency: "nats", retryAfterMs: 0 });
    let failing = { save: true, load: true, create: true };
    const madeClient = ({ components }: SessionRecord): boolean =>
      components.some(({ name, podUid }) => name === "client-0" && podUid !== "");
    const saved: boolean[] = [];
    const lossy: ExecutorDeps = {
      ...deps,
      save: async (record, revision) => {
        const next = await deps.save(record, revision);
        saved.push(madeClient(record));
        if (!madeClient(record) || !failing.save) return next;
        failing.save = false;
        // News for the next pass.
        const server = world.pods.get("bench-server-0");
        if (server !== undefined)
          world.pods.set(server.pod, { ...server, resourceVersion: server.resourceVersion + 1, message: "busy" });
        throw unavailable();
      },
      load: (name) => {
        if (failing.save || !failing.load) return deps.load(name);
        failing = { ...failing, load: false };
        return Promise.reject(unavailable());
      },
      act: (record, step) => {
        if (failing.save || !failing.create || step.do !== "create-pod") return deps.act(record, step);
        failing = { ...failing, create: false };
        return Promise.reject(unavailable());
      },
    };
    expect(await runSession(lossy, POLICY, world.session, never)).toBe("finished");
    expect(failing.load).toBe(false);
    expect(saved.slice(saved.indexOf(true))).not.toContain(false);
  });

  it("does not take a pod for gone that is there and only unseen", async () => {
    const world = fakeWorld({ behave: () => ({ health: "READY" }) });
    const first = world.deps("controller-a");
    const blind: ExecutorDeps = { ...first, pods: () => [] };
    const stop = new AbortController();
    const running = runSession(blind, POLICY, world.session, stop.signal);
    await until("a pod is made", () => world.pods.size > 0);
    world.state.monotonicMs += 10_000;
    world.wakeups.podChanged("bench");
    await until("it listed", () => world.calls.includes("list done"));
    expect(world.record().verdict).toBeUndefined();
    stop.abort();
    expect(await running).toBe("stopped");
  });

  it("runs a session to its end by what the API server lists when no watcher publishes anything", async () => {
    const world = fakeWorld({ restMsMax: 1 });
    world.state.podsFresh = false;
    const silent: ExecutorDeps = {
      ...world.deps("controller-a"),
      pods: () => [],
      monotonicMs: () => (world.state.monotonicMs += 10_000),
    };
    expect(await runSession(silent, POLICY, world.session, never)).toBe("finished");
    expect(world.record().events.at(-1)?.kind).toBe("DONE");
    expect(world.pods.size).toBe(3);
  });

  it("lists the pods before it calls a session's time over", async () => {
    const world = fakeWorld({ restMsMax: 1 });
    const deps = world.deps("controller-a");
    const running = runSession({ ...deps, pods: () => [] }, POLICY, world.session, never);
    await until("a server is made", () => world.pods.size > 0);
    world.state.nowMs += 900_000;
    for (const [name, pod] of world.pods) world.pods.set(name, { ...pod, health: "FAILED", exitCode: 3 });
    expect(await running).toBe("finished");
    expect(world.record().events.at(-1)?.description).toBe("server server-0 failed with exit code 3");
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
    expect(await runSession(world.deps("a"), POLICY, { ...world.session, uid: "u-0" }, never)).toBe("gone");
    expect(world.record().epoch).toBe(0);
  });
});
