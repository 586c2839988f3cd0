import { FaultError } from "@muster/faults";
import { until } from "@muster/testkit";
import { describe, expect, it } from "vitest";
import { makeFakeWorld, Killed } from "../test/fake-world.ts";
import { runSession } from "../test/run-session.ts";
import { makeComponent, makeSpec, START_MS } from "../test/samples.ts";
import type { SessionRecord } from "./domain/session.ts";
import { takeOverSession } from "./hold-session.ts";
import type { SessionDeps } from "./session-deps.ts";
import { makeSessions } from "./sessions.ts";
import { makeSuspectTurns } from "./suspect-turns.ts";

/** Short times, so that tests with pods in deletion are fast. */
const POLICY = {
  cleanupLimitMs: 1000,
  lookAgainMs: 1,
  nodeLostMs: 300_000,
  replacementWaitMs: 120_000,
};
const CANCELLED = { kind: "CANCELLED", atMs: 1, description: "", reason: "" } as const;
const never = new AbortController().signal;

function run(world: ReturnType<typeof makeFakeWorld>, executor = "controller-a", signal = never) {
  return runSession(world, world.deps(executor), POLICY, signal);
}

describe("a session", () => {
  it("runs from the queue to its end and then stays quiet", async () => {
    const world = makeFakeWorld();
    expect(await run(world)).toBe("finished");
    expect([...world.published.values()]).toEqual(["QUEUE", "ACCEPT", "PROVISION", "RUN", "DONE"]);
    expect(world.record()).toMatchObject({ resultJson: '{"qps":1}', warnings: [], released: true, waitingBecause: "" });
    const before = world.record();
    world.calls.length = 0;
    expect(await run(world)).toBe("finished");
    expect(world.record()).toBe(before);
  });

  it("writes its end together with the release of its machines", async () => {
    const world = makeFakeWorld();
    const deps = world.deps("controller-a");
    const written: SessionRecord[] = [];
    const save: SessionDeps["save"] = (record, revision) => {
      written.push(record);
      return deps.save(record, revision);
    };
    expect(await runSession(world, { ...deps, save }, POLICY, never)).toBe("finished");
    expect(written.filter(({ released }) => released)).toHaveLength(1);
    expect(written.at(-1)).toMatchObject({ released: true, verdict: { kind: "DONE" } });
    expect(written.at(-1)?.finishedAtMs).toBeGreaterThan(0);
  });

  it("writes a created pod together with the next change, and after a second at the latest", async () => {
    const world = makeFakeWorld({ behave: () => ({ health: "NOT_READY" }), maxRestMs: 1 });
    const stop = new AbortController();
    const running = run(world, "controller-a", stop.signal);
    const uids = (): readonly string[] => world.record().components.map(({ podUid }) => podUid);
    await until("a server is made", () => world.calls.includes("create-pod done"));
    expect(uids()).toEqual(["", "", ""]);
    world.state.monotonicMs += 1000;
    await until("the server is written", () => uids().some((uid) => uid !== ""));
    expect(world.made).toEqual(["bench-server-0"]);
    stop.abort();
    await running;
  });

  it("waits after it has created a pod, and continues immediately once the pod has a published state", async () => {
    const world = makeFakeWorld();
    const deps = world.deps("controller-a");
    const seen = { rounds: 0, isPublished: false };
    const watched: SessionDeps = {
      ...deps,
      wake: () => undefined,
      pods: (record) => (seen.isPublished ? deps.pods(record) : []),
      nodesUsable: (...of) => {
        seen.rounds += 1;
        return deps.nodesUsable(...of);
      },
    };
    const sessions = makeSessions(watched, { session: POLICY, maxFailures: 5 });
    const rest = await sessions.reconcile("bench", never);
    // Three rounds: reserve, record the grant, create the server.
    expect([seen.rounds, world.made]).toEqual([3, ["bench-server-0"]]);
    expect(rest).toEqual({ requeueAfterMs: 1000 });
    seen.isPublished = true;
    await sessions.reconcile("bench", never);
    expect(world.made).toEqual(["bench-server-0", "bench-client-0", "bench-driver"]);
    await sessions.stop(never);
  });

  it("continues at any point where another executor died", async () => {
    const undisturbed = makeFakeWorld();
    await run(undisturbed);
    const places = undisturbed.calls.length;
    expect(places).toBeGreaterThan(30);
    for (let place = 0; place <= places; place += 1) {
      const world = makeFakeWorld();
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

  /** Runs the session in a process that dies while it waits for the ledger. */
  async function dyingRun(world: ReturnType<typeof makeFakeWorld>, executor: string): Promise<void> {
    const asked = Promise.withResolvers<undefined>();
    const act: SessionDeps["act"] = () => {
      asked.resolve(undefined);
      return Promise.withResolvers<never>().promise;
    };
    void runSession(world, { ...world.deps(executor), act }, POLICY, never);
    await asked.promise;
  }

  it("ends after it has crashed five executors in a row, and is cleaned up", async () => {
    const world = makeFakeWorld();
    for (let process = 1; process <= 5; process += 1) await dyingRun(world, `controller-${process}`);
    expect(await run(world, "controller-6")).toBe("finished");
    expect(world.record().events.at(-1)).toMatchObject({
      kind: "INTERNAL_ERROR",
      description: "the session cannot be run: it ended its controller 5 times in a row",
    });
    expect(world.made).toEqual([]);
    expect(world.record().released).toBe(true);
  });

  it("forgets crashed executors once one makes progress", async () => {
    const world = makeFakeWorld();
    for (let process = 1; process <= 4; process += 1) await dyingRun(world, `controller-${process}`);
    expect(world.record().attempts).toBe(4);
    expect(await run(world, "controller-5")).toBe("finished");
    expect(world.record()).toMatchObject({ attempts: 0, verdict: { kind: "DONE" } });
  });

  it("forgets crashed executors once one has run it for ten seconds, whatever fails meanwhile", async () => {
    const world = makeFakeWorld();
    world.write({ ...world.record(), attempts: 3 });
    world.state.failing.add("reserve");
    const stop = new AbortController();
    const deps = world.deps("controller-a");
    const act: SessionDeps["act"] = (record, step) => {
      world.state.monotonicMs += 3000;
      return deps.act(record, step);
    };
    const running = runSession(world, { ...deps, act }, POLICY, stop.signal);
    await until("it has survived", () => world.record().attempts === 0);
    expect(world.calls).toContain("reserve");
    stop.abort();
    await running;
  });

  it("does not count a stopped executor, however many are stopped", async () => {
    const world = makeFakeWorld();
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

  it("is not taken over if it may have crashed its executors while another such session has its turn", async () => {
    const world = makeFakeWorld();
    world.write({ ...world.record(), attempts: 2 });
    const deps = { ...world.deps("controller-a"), wake: () => undefined };
    expect(await takeOverSession(deps, "bench", () => false)).toBe("suspect");
    expect(world.record()).toMatchObject({ epoch: 0, attempts: 2 });
    expect(await takeOverSession(deps, "bench", () => true)).toMatchObject({ record: { epoch: 1, attempts: 3 } });
  });

  it("is not taken from a later leader, and the process stands down", async () => {
    const world = makeFakeWorld();
    const deposed = world.deps("controller-a");
    world.state.grant = false;
    expect(await run(world, "controller-b")).toBe("waiting");
    const taken = world.record();
    expect(await runSession(world, deposed, POLICY, never)).toBe("lost");
    expect(world.stoodDown).toEqual(["controller-a"]);
    expect(world.record()).toEqual(taken);
  });

  it("counts a process that leads again once", async () => {
    const world = makeFakeWorld();
    const deps = { ...world.deps("controller-a"), wake: () => undefined };
    await takeOverSession(deps, "bench", () => true);
    await takeOverSession({ ...deps, token: 7 }, "bench", () => true);
    expect(world.record()).toMatchObject({ epoch: 7, attempts: 1 });
  });

  it("gives one suspect a turn at a time, until it is released or its turn has expired", () => {
    let nowMs = 0;
    const turns = makeSuspectTurns(() => nowMs);
    expect(turns.tryTake("a")).toBe(true);
    expect([turns.tryTake("a"), turns.tryTake("b")]).toEqual([true, false]);
    turns.release("b");
    expect(turns.tryTake("b")).toBe(false);
    turns.release("a");
    expect([turns.tryTake("b"), turns.tryTake("a")]).toEqual([true, false]);
    nowMs = 10_000;
    expect([turns.tryTake("a"), turns.tryTake("b")]).toEqual([true, false]);
  });

  it("counts a finished session that it completes in its first pass, and no earlier event", async () => {
    const world = makeFakeWorld();
    const events = (["QUEUE", "ACCEPT", "PROVISION", "RUN"] as const).map((kind) => {
      return { kind, atMs: START_MS, description: "", reason: "" } as const;
    });
    const clean = { verdict: CANCELLED, logsCollected: true, podsDeleted: true, released: true };
    world.write({ ...world.record(), ...clean, events });
    expect(await run(world)).toBe("finished");
    expect(world.counted).toEqual(["CANCELLED"]);
    expect([...world.published.values()]).toEqual(["QUEUE", "ACCEPT", "PROVISION", "RUN", "CANCELLED"]);
  });

  it("lists its pods once, and then no more before a watcher reports that they are gone", async () => {
    const world = makeFakeWorld();
    expect(await run(world)).toBe("finished");
    // Pods of this world are gone after one more list.
    expect(world.calls.filter((call) => call === "list")).toHaveLength(3);
  });

  it("survives a temporary outage of every dependency", async () => {
    for (const call of ["list", "reserve", "create-pod", "delete-pod", "release", "announce"]) {
      const world = makeFakeWorld();
      world.state.failing.add(call);
      const running = run(world);
      await until(`${call} was tried`, () => world.calls.includes(call));
      world.state.failing.clear();
      expect(await running).toBe("finished");
      expect(world.record().events.at(-1)?.kind).toBe("DONE");
    }
  });

  it("waits between writes that a full store refuses, and stops at the signal", async () => {
    const world = makeFakeWorld();
    const stop = new AbortController();
    const deps = world.deps("controller-a");
    const full = { code: "limit_exceeded", what: "size of bucket sessions", limit: 9, retryAfterMs: 1000 } as const;
    const calls: string[] = [];
    const crowded: Omit<SessionDeps, "wake"> = {
      ...deps,
      save: (record, revision) => {
        if (world.record().epoch === 0) return deps.save(record, revision);
        // The writes of a stopping process have separate pauses.
        if (!stop.signal.aborted) calls.push("save");
        if (calls.length >= 8) stop.abort();
        return Promise.reject(new FaultError(full));
      },
    };
    const onRest = (ms: number | "retry"): void => {
      if (ms === "retry") calls.push("rest");
    };
    const running = runSession({ ...world, maxRestMs: 1 }, crowded, POLICY, stop.signal, { onRest });
    expect(await running).toBe("stopped");
    // The first pass writes no outcome yet; hints of the user's write arrive without a pause.
    expect(calls.filter((call, index) => call === "save" && calls[index - 1] === "save")).toEqual([]);
  });

  it("keeps its place in the queue for a replacement while its only shared component has no room on its own machine", async () => {
    const components = makeSpec().components.map((each) => ({ ...each, shared: each.kind === "server" }));
    const world = makeFakeWorld({ spec: makeSpec({ components }), maxRestMs: 1 });
    const foreign = { pods: 1, examples: ["shop/web"] };
    const resources = [{ resource: "cpu", requested: 500, free: 100 }];
    world.state.crowded = [
      { component: "server-0", node: "node-server-0", resources, foreign, sinceMs: START_MS, isLost: true },
    ];
    let waits = 0;
    const onRest = (): void => {
      if (world.calls.includes("reserve-replacement done")) waits += 1;
    };
    const running = runSession(world, world.deps("controller-a"), POLICY, never, { onRest });
    await until("some passes have found no room", () => waits > 3 || world.made.length > 0);
    const releases = (): readonly string[] => world.calls.filter((call) => call === "release-replacement");
    expect([world.made, releases()]).toEqual([[], []]);
    world.state.crowded = [];
    expect(await running).toBe("finished");
    expect(releases()).toHaveLength(1);
  });

  it("states what it waits for while the ledger is away", async () => {
    const world = makeFakeWorld();
    world.state.failing.add("reserve");
    const running = run(world);
    await until("the wait is explained", () => world.record().waitingBecause === "reserve is not available");
    world.state.failing.clear();
    expect(await running).toBe("finished");
    expect(world.record().waitingBecause).toBe("");
  });

  it("stops without a further write when another executor has taken the session over", async () => {
    const world = makeFakeWorld({ behave: () => ({ health: "READY" }) });
    const running = run(world);
    await until("it runs", () => world.record().events.some(({ kind }) => kind === "RUN"));
    world.takeAway();
    expect(await running).toBe("lost");
    expect(world.record().executor).toBe("another");
  });

  it.each(["reserve", "create-pod", "collect-logs", "delete-pod", "release"])(
    "does no %s after a pause in which another executor has taken the session over",
    async (call) => {
      const world = makeFakeWorld();
      const deps = world.deps("controller-a");
      let replaced = false;
      const stopped: Omit<SessionDeps, "wake"> = {
        ...deps,
        // The process stops between the decision on the step and its execution.
        logger: {
          ...deps.logger,
          info: (fields) => {
            if (replaced || !JSON.stringify(fields).includes(`"kind":"${call}"`)) return;
            replaced = true;
            world.takeAway();
            world.state.deposed.add("controller-a");
            world.calls.length = 0;
          },
        },
      };
      expect(await runSession(world, stopped, POLICY, never)).toBe("lost");
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
  ] as const)("whose pods were created after it was replaced %s", async (_title, taken, left) => {
    const components = [
      makeComponent("server-0", "server"),
      makeComponent("server-1", "server"),
      makeComponent("driver", "driver"),
    ];
    const world = makeFakeWorld({ spec: makeSpec({ components }) });
    const deps = world.deps("controller-a");
    let requests = 0;
    const late: Omit<SessionDeps, "wake"> = {
      ...deps,
      act: async (record, step) => {
        // Both requests were in flight when the process stopped.
        if (step.kind === "create-pod") requests += 1;
        if (requests === 2 && world.record().executor !== "another") {
          world.takeAway(taken);
          world.state.deposed.add("controller-a");
        }
        return deps.act(record, step);
      },
    };
    expect(await runSession(world, late, POLICY, never)).toBe("lost");
    const staying = [...world.pods.values()].filter(({ deleting }) => !deleting).map(({ pod }) => pod);
    expect(staying.toSorted()).toEqual(left);
    expect(world.pods.size).toBe(2);
  });

  it.each([
    ["releases the machines if the session has released them", { verdict: CANCELLED, released: true }, false],
    ["leaves the machines to its successor, which gives them back", { verdict: CANCELLED }, true],
  ] as const)("whose request for machines was late %s", async (_title, taken, held) => {
    const world = makeFakeWorld();
    const deps = world.deps("controller-a");
    const late: Omit<SessionDeps, "wake"> = {
      ...deps,
      act: async (record, step) => {
        if (step.kind === "reserve") world.takeAway(taken);
        return deps.act(record, step);
      },
    };
    expect(await runSession(world, late, POLICY, never)).toBe("lost");
    expect(world.state.held).toBe(held);
  });

  it("continues after a pause without a take-over", async () => {
    const world = makeFakeWorld();
    const deps = world.deps("controller-a");
    const slow: Omit<SessionDeps, "wake"> = {
      ...deps,
      monotonicMs: () => (world.state.monotonicMs += 501),
    };
    expect(await runSession(world, slow, POLICY, never)).toBe("finished");
    expect(world.pods.size).toBe(3);
  });

  it.each([
    ["does not take the echo of its own write for a change, also before the answer", false],
    ["wakes itself after a write during which another writer's was seen", true],
  ])("%s", async (_title, cancels) => {
    const world = makeFakeWorld();
    const deps = world.deps("controller-a");
    const woken: string[] = [];
    const news: boolean[] = [];
    const echoed: SessionDeps = {
      ...deps,
      wake: (name) => void woken.push(name),
      save: async (record, revision) => {
        const saved = await deps.save(record, revision);
        news.push(sessions.isUnseenChange(record.name, saved));
        if (cancels && news.length === 1) world.cancel();
        return saved;
      },
    };
    const sessions = makeSessions(echoed, { session: POLICY, maxFailures: 1 });
    world.state.grant = false;
    await sessions.reconcile("bench", never);
    expect(news).toEqual(news.map(() => false));
    expect(news.length).toBeGreaterThan(0);
    expect(woken.length > 0).toBe(cancels);
    expect(sessions.isUnseenChange("bench", deps.newestRevision("bench") + 1)).toBe(true);
  });

  it("ignores a late echo of its own write for a session that it left waiting", async () => {
    const world = makeFakeWorld();
    world.state.grant = false;
    const deps = { ...world.deps("controller-a"), wake: () => undefined };
    const sessions = makeSessions(deps, { session: POLICY, maxFailures: 1 });
    await sessions.reconcile("bench", never);
    expect(world.left).toEqual(["waiting"]);
    expect(sessions.isUnseenChange("bench", deps.newestRevision("bench"))).toBe(false);
    world.cancel();
    expect(sessions.isUnseenChange("bench", deps.newestRevision("bench"))).toBe(true);
  });

  it("runs no pass over a finished session until its record is written again", async () => {
    const world = makeFakeWorld();
    const deps = { ...world.deps("controller-a"), wake: () => undefined };
    const sessions = makeSessions(deps, { session: { ...POLICY, lookAgainMs: 0 }, maxFailures: 1 });
    while (world.left.length === 0) {
      await sessions.reconcile("bench", never);
      world.state.monotonicMs += 1;
    }
    expect(world.left).toEqual(["finished"]);
    world.calls.length = 0;
    expect(await sessions.reconcile("bench", never)).toEqual({});
    expect(world.calls).toEqual([]);
    world.write(world.record());
    await sessions.reconcile("bench", never);
    expect(world.calls).toContain("announce done");
  });

  it("notices a cancellation immediately, and ends as cancelled", async () => {
    const world = makeFakeWorld({ behave: () => ({ health: "READY" }) });
    const running = run(world);
    await until("it runs", () => world.record().events.some(({ kind }) => kind === "RUN"));
    world.cancel();
    expect(await running).toBe("finished");
    expect(world.record().events.at(-1)?.kind).toBe("CANCELLED");
  });

  it("uses no memory while the ledger queues it, and continues from there when it is woken", async () => {
    const world = makeFakeWorld();
    world.state.grant = false;
    expect(await run(world)).toBe("waiting");
    expect(world.record()).toMatchObject({
      reservationId: "r-1",
      waitingBecause: "the ledger has given no reason yet",
    });
    world.state.grant = true;
    expect(await run(world, "controller-b")).toBe("finished");
    expect([...world.published.values()]).toEqual(["QUEUE", "ACCEPT", "PROVISION", "RUN", "DONE"]);
  });

  it("is not taken over again by the process that left it waiting", async () => {
    const world = makeFakeWorld();
    world.state.grant = false;
    expect(await run(world)).toBe("waiting");
    const { epoch } = world.record();
    world.state.grant = true;
    expect(await run(world)).toBe("finished");
    expect(world.record().epoch).toBe(epoch);
  });

  it("counts its executor once, however many answers to its take-over are lost", async () => {
    const world = makeFakeWorld();
    const deps = world.deps("a");
    let lost = 0;
    const lossy: Omit<SessionDeps, "wake"> = {
      ...deps,
      save: async (record, revision) => {
        const next = await deps.save(record, revision);
        if (record.components.some(({ podUid }) => podUid !== "") || lost >= 8) return next;
        lost += 1;
        throw new FaultError({ code: "unavailable", dependency: "nats", retryAfterMs: 0 });
      },
    };
    const options = { endsAt: ["finished"] as const, onFailure: () => undefined };
    expect(await runSession({ ...world, maxRestMs: 1 }, lossy, POLICY, never, options)).toBe("finished");
    expect(lost).toBeGreaterThan(1);
    expect(world.record()).toMatchObject({ epoch: 1, verdict: { kind: "DONE" } });
  });

  it.each(["grant", "cancellation"])("misses no %s that arrives during a request for machines", async (what) => {
    const world = makeFakeWorld();
    const deps = world.deps("a");
    const hinted: Omit<SessionDeps, "wake"> = {
      ...deps,
      act: async (record, step) => {
        const isFirst = step.kind === "reserve" && !world.calls.includes("reserve done");
        world.state.grant = !isFirst;
        const acted = await deps.act(record, step);
        if (isFirst && what === "grant") world.hint("granted");
        if (isFirst && what === "cancellation") world.cancel();
        return acted;
      },
    };
    expect(await runSession(world, hinted, POLICY, never, { endsAt: ["finished"] })).toBe("finished");
    expect(world.record().events.at(-1)?.kind).toBe(what === "grant" ? "DONE" : "CANCELLED");
  });

  it("withdraws exactly its queued request when it is cancelled", async () => {
    const world = makeFakeWorld();
    world.state.grant = false;
    expect(await run(world)).toBe("waiting");
    world.cancel();
    expect(await run(world)).toBe("finished");
    expect(world.record()).toMatchObject({ reservationId: "r-1", released: true });
    expect(world.calls).toContain("release done");
  });

  it("stays unchanged if its record cannot be read", async () => {
    const world = makeFakeWorld();
    const load = () => Promise.reject(new FaultError({ code: "internal", operation: "reading session bench" }));
    expect(await runSession(world, { ...world.deps("a"), load }, POLICY, never)).toBe("unreadable");
    expect(world.calls).toEqual([]);
  });

  it("ends when its pod disappeared without a watcher", async () => {
    const world = makeFakeWorld({ behave: () => ({ health: "READY" }) });
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
      description: "server server-0 failed: PodGone: the pod is gone, and its end was not observed",
    });
  });

  it("notices an unobserved removal of a pod while it runs the session itself", async () => {
    const world = makeFakeWorld({ behave: () => ({ health: "READY" }) });
    const running = run(world);
    await until("it runs", () => world.record().events.some(({ kind }) => kind === "RUN"));
    world.pods.delete("bench-client-0");
    world.state.monotonicMs += 10_000;
    world.hint("pods");
    expect(await running).toBe("finished");
    expect(world.record().events.at(-1)?.description).toContain("client client-0 failed: PodGone");
  });

  it("notices a removal of a pod after the watchers fell silent, whatever they published before", async () => {
    const world = makeFakeWorld({ behave: () => ({ health: "READY" }) });
    const running = run(world);
    await until("it runs", () => world.record().events.some(({ kind }) => kind === "RUN"));
    world.state.podsFresh = false;
    const [name, pod] = [...world.pods].find(([pod]) => pod === "bench-client-0") ?? [];
    if (name !== undefined && pod !== undefined) world.pods.set(name, { ...pod, alive: false });
    world.state.monotonicMs += 10_000;
    world.hint("pods");
    expect(await running).toBe("finished");
    expect(world.record().events.at(-1)?.description).toContain("client client-0 failed: PodGone");
  });

  it("plans nothing from a record that it may have replaced", async () => {
    const world = makeFakeWorld({ maxRestMs: 1 });
    const deps = world.deps("controller-a");
    const unavailable = () => new FaultError({ code: "unavailable", dependency: "nats", retryAfterMs: 0 });
    let failing = { save: true, load: true, create: true };
    const madeClient = ({ components }: SessionRecord): boolean =>
      components.some(({ name, podUid }) => name === "client-0" && podUid !== "");
    const saved: boolean[] = [];
    const lossy: Omit<SessionDeps, "wake"> = {
      ...deps,
      save: async (record, revision) => {
        const next = await deps.save(record, revision);
        saved.push(madeClient(record));
        if (!madeClient(record) || !failing.save) return next;
        failing.save = false;
        // A change for the next pass.
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
        if (failing.save || !failing.create || step.kind !== "create-pod") return deps.act(record, step);
        failing = { ...failing, create: false };
        return Promise.reject(unavailable());
      },
    };
    expect(await runSession(world, lossy, POLICY, never)).toBe("finished");
    expect(failing.load).toBe(false);
    expect(saved.slice(saved.indexOf(true))).not.toContain(false);
  });

  it("does not regard an existing pod as gone because no watcher publishes it", async () => {
    const world = makeFakeWorld({ behave: () => ({ health: "READY" }) });
    const first = world.deps("controller-a");
    const blind: Omit<SessionDeps, "wake"> = { ...first, pods: () => [] };
    const stop = new AbortController();
    const running = runSession(world, blind, POLICY, stop.signal);
    await until("a pod is made", () => world.pods.size > 0);
    world.state.monotonicMs += 10_000;
    world.hint("pods");
    await until("it listed", () => world.calls.includes("list done"));
    expect(world.record().verdict).toBeUndefined();
    stop.abort();
    expect(await running).toBe("stopped");
  });

  it("runs to its end on lists of the API server when no watcher publishes anything", async () => {
    const world = makeFakeWorld({ maxRestMs: 1 });
    world.state.podsFresh = false;
    const silent: Omit<SessionDeps, "wake"> = {
      ...world.deps("controller-a"),
      pods: () => [],
      monotonicMs: () => (world.state.monotonicMs += 10_000),
    };
    expect(await runSession(world, silent, POLICY, never)).toBe("finished");
    expect(world.record().events.at(-1)?.kind).toBe("DONE");
    expect(world.pods.size).toBe(3);
  });

  it("reads the logs of pods in their state after the verdict, though it listed them just before", async () => {
    const world = makeFakeWorld({ behave: () => ({ health: "READY" }) });
    const first = world.deps("controller-a");
    const seen: unknown[] = [];
    const watching: Omit<SessionDeps, "wake"> = {
      ...first,
      podsFresh: () => world.state.podsFresh || world.calls.includes("list done"),
      collectLogs: (record, step, onRead, signal) => {
        seen.push(...step.pods.map(({ seen: { pod, health } }) => `${pod} ${health}`));
        return first.collectLogs(record, step, onRead, signal);
      },
    };
    const running = runSession(world, watching, POLICY, never);
    await until("it runs", () => world.record().events.some(({ kind }) => kind === "RUN"));
    world.state.podsFresh = false;
    world.state.monotonicMs += 10_000;
    world.hint("pods");
    await until("it listed", () => world.calls.includes("list done"));
    const driver = world.pods.get("bench-driver");
    if (driver !== undefined) world.pods.set(driver.pod, { ...driver, health: "SUCCEEDED", exitCode: 0 });
    world.hint("pods");
    expect(await running).toBe("finished");
    expect(seen).toContain("bench-driver SUCCEEDED");
  });

  it("lists the pods before it decides that a session has timed out", async () => {
    const world = makeFakeWorld({ maxRestMs: 1 });
    const deps = world.deps("controller-a");
    const running = runSession(world, { ...deps, pods: () => [] }, POLICY, never);
    await until("a server is made", () => world.pods.size > 0);
    world.state.nowMs += 900_000;
    for (const [name, pod] of world.pods) world.pods.set(name, { ...pod, health: "FAILED", exitCode: 3 });
    expect(await running).toBe("finished");
    expect(world.record().events.at(-1)?.description).toBe("server server-0 failed with exit code 3");
  });

  it("stays unchanged when the process has to stop", async () => {
    const world = makeFakeWorld({ behave: () => ({ health: "READY" }) });
    const stop = new AbortController();
    const running = run(world, "controller-a", stop.signal);
    await until("it runs", () => world.record().events.some(({ kind }) => kind === "RUN"));
    stop.abort();
    expect(await running).toBe("stopped");
    expect(world.record().verdict).toBeUndefined();
    expect(world.pods.size).toBe(3);
  });

  it("has no step for a session that does not exist", async () => {
    const world = makeFakeWorld();
    const deps = { ...world.deps("a"), load: () => Promise.resolve(undefined) };
    expect(await runSession(world, deps, POLICY, never)).toBe("gone");
    expect(world.record().epoch).toBe(0);
  });
});

describe("a session that fails by a defect", () => {
  const defect = (): never => {
    throw new TypeError("undefined is not a function");
  };
  const tolerant = (failures: unknown[]) => ({
    maxFailures: 3,
    endsAt: ["finished"] as const,
    onFailure: (error: unknown) => void failures.push(error),
  });

  it("ends as INTERNAL_ERROR with everything cleaned up", async () => {
    const world = makeFakeWorld({ behave: () => ({}) });
    const brokenOnceItRuns: Partial<SessionDeps> = {
      pods: ({ verdict, ...record }) =>
        verdict === undefined && record.events.length > 2 && record.components.some((c) => c.podUid !== "")
          ? defect()
          : [],
    };
    const failures: unknown[] = [];
    const deps = { ...world.deps("a"), ...brokenOnceItRuns };
    expect(await runSession(world, deps, POLICY, never, tolerant(failures))).toBe("finished");
    expect(failures).toHaveLength(3);
    expect(world.made).toHaveLength(1);
    expect(world.record().events.at(-1)).toMatchObject({
      kind: "INTERNAL_ERROR",
      description: "the session cannot be run: failed 3 times, at last because undefined is not a function",
    });
    expect(world.state.held).toBe(false);
    expect([...world.pods.values()].every(({ alive }) => !alive)).toBe(true);
  });

  it("continues when passes succeed between its failures", async () => {
    const world = makeFakeWorld({ behave: () => ({ health: "READY" }) });
    const deps = world.deps("a");
    let isBroken = false;
    const pods: SessionDeps["pods"] = (record) => (isBroken ? defect() : deps.pods(record));
    const sessions = makeSessions({ ...deps, pods, wake: () => undefined }, { session: POLICY, maxFailures: 3 });
    for (let pass = 0; pass < 5; pass += 1) {
      await sessions.reconcile("bench", never);
      isBroken = true;
      await expect(sessions.reconcile("bench", never)).rejects.toThrow("undefined is not a function");
      isBroken = false;
    }
    expect(world.record().finishedAtMs).toBe(0);
  });

  it("is left to the sweep when its clean-up always fails, too", async () => {
    const world = makeFakeWorld();
    const failures: unknown[] = [];
    const deps = { ...world.deps("a"), act: defect };
    expect(await runSession(world, deps, POLICY, never, tolerant(failures))).toBe("finished");
    expect(failures).toHaveLength(6);
    expect(world.record()).toMatchObject({ podsDeleted: true, released: false });
    expect(world.record().warnings.map(({ code }) => code)).toEqual(["NOT_RELEASED"]);
  });

  it("is retried until its end can be written", async () => {
    const world = makeFakeWorld();
    let refusals = 0;
    const deps = world.deps("a");
    const broken: Omit<SessionDeps, "wake"> = {
      ...deps,
      save: (record, revision) => {
        refusals += 1;
        if (refusals > 20) return deps.save(record, revision);
        return Promise.reject(new FaultError({ code: "internal", operation: "writing" }));
      },
    };
    expect(await runSession(world, broken, POLICY, never, tolerant([]))).toBe("finished");
    expect(world.record().events.at(-1)?.kind).toMatch(/^(INTERNAL_ERROR|DONE)$/);
  });

  it("is not ended for temporary trouble", async () => {
    const world = makeFakeWorld();
    const failures: unknown[] = [];
    const stop = new AbortController();
    const load = () => Promise.reject(new FaultError({ code: "unavailable", dependency: "nats", retryAfterMs: 0 }));
    const running = runSession(world, { ...world.deps("a"), load }, POLICY, stop.signal, tolerant(failures));
    await until("it was tried often", () => failures.length >= 10);
    stop.abort();
    expect(await running).toBe("stopped");
    expect(world.record().verdict).toBeUndefined();
  });
});
