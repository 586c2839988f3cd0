import { FaultError } from "@muster/faults";
import { ROOT_CONTEXT } from "@opentelemetry/api";
import { describe, expect, it } from "vitest";
import {
  makeEndedPod,
  makeGrantedUnit,
  makePodFact,
  makeReplica,
  POLICY,
  makeReplicaSeen,
  makeSnapshot,
  makeSpec,
} from "../test/samples.ts";
import { NEW_STATUS, type JobStatus } from "./domain/job-status.ts";
import type { JobStep } from "./domain/plan-steps.ts";
import type { Snapshot } from "./domain/snapshot.ts";
import { makeReconcile, type ObservedJob, type PassDeps } from "./reconcile.ts";

const PASS_POLICY = { ...POLICY, statusEveryMs: 1000, maxPostponeMs: 15_000 };

const never = new AbortController().signal;

/** A world in which steps succeed, except for the steps that a test makes fail. */
function world(
  start: Partial<Snapshot>,
  more: Partial<PassDeps<ObservedJob>> = {},
  seenToo: Partial<ObservedJob> = {},
) {
  const did: string[] = [];
  let now = makeSnapshot(start);
  let failing: readonly JobStep["kind"][] = [];
  const failures: string[] = [];
  const unclaimed: Error[] = [];
  const wakes: number[] = [];
  const passes: string[][] = [];
  const recorded: string[][] = [];
  const deps: PassDeps<ObservedJob> = {
    observe: () => {
      const idle = { sinceWriteMs: Infinity, busyForMs: undefined };
      return Promise.resolve({ seen: { snapshot: now, errors: [...unclaimed], ...idle, ...seenToo } });
    },
    span: (_seen, { steps }) => {
      passes.push(steps.map((step) => step.kind));
      return { name: "pass", parent: ROOT_CONTEXT, attributes: {} };
    },
    act: (_seen, step) => {
      if (failing.includes(step.kind)) return Promise.reject(failureOf(step.kind));
      did.push(step.kind);
      now = after(now, step);
      return Promise.resolve();
    },
    writeStatus: (_seen, status: JobStatus) => {
      did.push("write");
      now = { ...now, status };
      return Promise.resolve("written" as const);
    },
    recorded: () => recorded.push([...did]) && undefined,
    staleForMs: () => undefined,
    planned: () => undefined,
    failed: (_seen, step) => {
      failures.push(step.kind);
    },
    wakeAfter: (_key, ms) => {
      wakes.push(ms);
    },
    ...more,
  };
  const reconcile = makeReconcile(deps, PASS_POLICY);
  return {
    did,
    failures,
    unclaimed,
    wakes,
    passes,
    recorded,
    snapshot: () => now,
    fail: (...steps: JobStep["kind"][]) => {
      failing = steps;
    },
    /** Returns the steps since the last call. */
    pass: async () => {
      did.length = 0;
      const next = await reconcile("default/train", never);
      return { did: [...did], requeueAfterMs: next?.requeueAfterMs };
    },
  };
}

/** The ledger fails by not answering. */
function failureOf(step: JobStep["kind"]): Error {
  if (step !== "reserve") return new Error(`${step} failed`);
  return new FaultError({ code: "unavailable", dependency: "reservation-manager", retryAfterMs: 1 });
}

function after(now: Snapshot, step: JobStep): Snapshot {
  switch (step.kind) {
    case "reserve": {
      const { id, needs } = step.unit;
      const granted = { ...makeGrantedUnit(...needs.map(({ component }) => component)), id };
      return { ...now, units: [...now.units.filter((unit) => unit.id !== id), granted] };
    }
    case "create-pods":
      return { ...now, replicas: [makeReplicaSeen("worker", [makePodFact("worker-0"), makePodFact("worker-1")])] };
    case "sync-budget":
      return { ...now, budget: step.minAvailable };
    case "create-service":
      return { ...now, services: { ...now.services, present: [...now.services.present, step.service] } };
    default:
      return now;
  }
}

const fresh = { units: [], services: { present: [], wanted: ["train"], settled: true }, budget: undefined };

describe("a pass", () => {
  it("creates pods from nothing if machines are granted immediately, and then reports it", async () => {
    const { pass } = world(fresh);
    expect((await pass()).did).toEqual(["reserve", "create-pods", "create-service", "sync-budget", "write"]);
    expect((await pass()).did).toEqual(["write"]);
    expect((await pass()).did).toEqual([]);
  });

  it("requests the members of an elastic gang beyond its minimum, as reservations of their own, once the gang is granted", async () => {
    const worker = makeReplica("worker", 4, { elastic: { minReplicas: 2, maxReplicas: 4 } });
    const slots = [undefined, undefined, undefined, undefined];
    const { pass, snapshot } = world({
      ...fresh,
      spec: makeSpec({ replicas: [worker] }),
      replicas: [makeReplicaSeen("worker", slots)],
    });
    expect((await pass()).did.slice(0, 3)).toEqual(["reserve", "reserve", "reserve"]);
    const held = snapshot().units.map((unit) => (unit.state === "granted" ? [...unit.nodes.keys()] : []));
    expect(held).toEqual([["worker-0", "worker-1"], ["worker-2"], ["worker-3"]]);
  });

  it("records ends of pods after their counts, and before any step that follows from them", async () => {
    const failed = { ...fresh, units: [makeGrantedUnit("worker-0", "worker-1")], budget: 2 };
    const slots = [makePodFact("worker-0"), makeEndedPod("worker-1", 1, { finishedMs: 0 })];
    const { pass, recorded } = world({ ...failed, replicas: [makeReplicaSeen("worker", slots)] });
    expect((await pass()).did).toContain("delete-pod");
    expect(recorded).toEqual([["write"]]);
  });

  it("records no ends of pods if the write of their counts failed", async () => {
    const refusing = { writeStatus: () => Promise.reject(new Error("conflict")) };
    const { pass, recorded } = world(
      { replicas: [makeReplicaSeen("worker", [makeEndedPod("worker-0", 0), undefined])] },
      refusing,
    );
    await expect(pass()).rejects.toThrow("conflict");
    expect(recorded).toEqual([]);
  });

  it("writes the status of a job whose preparation has no effect", async () => {
    const tried: string[] = [];
    const act = (_seen: ObservedJob, step: JobStep): Promise<void> => Promise.resolve(void tried.push(step.kind));
    const { pass } = world(fresh, { act });
    expect((await pass()).did).toEqual(["write"]);
    expect(tried).toEqual(["reserve", "reserve", "reserve"]);
  });

  it("repeats failed steps in the next pass, without the other steps", async () => {
    const { pass, fail, did } = world(fresh);
    fail("create-service");
    await expect(pass()).rejects.toThrow("create-service failed");
    expect(did).toEqual(["reserve", "create-pods", "sync-budget", "write"]);
    fail();
    expect((await pass()).did).toEqual(["create-service", "write"]);
  });

  it("reports every failed step, and fails with all of them", async () => {
    const { pass, fail, failures } = world(fresh);
    fail("create-service", "sync-budget");
    await expect(pass()).rejects.toMatchObject({
      errors: [new Error("create-service failed"), new Error("sync-budget failed")],
    });
    expect(failures).toEqual(["create-service", "sync-budget"]);
  });

  it("carries out everything else for a job with a member that could not be claimed, and then fails with the cause", async () => {
    const { pass, did, unclaimed } = world(fresh);
    unclaimed.push(new Error("a pod could not be adopted"));
    await expect(pass()).rejects.toThrow("a pod could not be adopted");
    expect(did).toEqual(["reserve", "create-pods", "create-service", "sync-budget", "write"]);
  });

  it("creates services concurrently, up to a limit", async () => {
    const wanted = Array.from({ length: 40 }, (_none, index) => `train-worker-${index}`);
    let now = 0;
    let most = 0;
    const { pass } = world(
      { units: [makeGrantedUnit("worker-0", "worker-1")], services: { present: [], wanted, settled: true } },
      {
        act: async (_seen, step) => {
          if (step.kind !== "create-service") return;
          now += 1;
          most = Math.max(most, now);
          await new Promise(setImmediate);
          now -= 1;
        },
      },
    );
    await pass();
    expect(most).toBe(16);
  });

  it("keeps a deadline although a step always fails, and does not retry more often for a passed deadline", async () => {
    const late = world({ ...fresh, spec: makeSpec({ activeDeadlineMs: 5000 }) });
    late.fail("create-service");
    await expect(late.pass()).rejects.toThrow("create-service failed");
    expect(late.wakes).toEqual([5000]);
    const soon = world({ ...fresh, spec: makeSpec({ activeDeadlineMs: 1 }) });
    soon.fail("create-service");
    await expect(soon.pass()).rejects.toThrow("create-service failed");
    expect(soon.wakes).toEqual([1000]);
  });

  it("reports once that a job waits for the reservation manager if that does not answer", async () => {
    const { pass, fail, did, snapshot: now } = world(fresh);
    fail("reserve");
    await expect(pass()).rejects.toThrow();
    expect(did).toEqual(["write"]);
    expect(now().status.conditions).toMatchObject([
      { type: "Created", status: "True" },
      { type: "MachinesReserved", status: "False", reason: "LedgerSilent" },
    ]);
    await expect(pass()).rejects.toThrow();
    expect(did).toEqual([]);
    fail();
    expect((await pass()).did).toContain("create-pods");
  });

  it("has a span with its plan only if it changes something", async () => {
    const { pass, passes } = world(fresh);
    await pass();
    expect(passes).toEqual([["reserve"], ["create-pods", "create-service", "sync-budget"]]);
    await pass();
    expect(passes.splice(0)).toHaveLength(3);
    await pass();
    expect(passes).toEqual([]);
  });

  it("records a failure before any step that follows from it", async () => {
    const failed = makeEndedPod("worker-1", 1, { finishedMs: 0 });
    const { pass } = world({ budget: 2, replicas: [makeReplicaSeen("worker", [makePodFact("worker-0"), failed])] });
    expect((await pass()).did).toEqual(["write", "delete-pod"]);
  });

  it("takes no step that relies on a failed write", async () => {
    const failed = makeEndedPod("worker-1", 1, { finishedMs: 0 });
    const conflict = (): Promise<never> => Promise.reject(new Error("conflict"));
    const { pass, did } = world(
      { budget: 2, replicas: [makeReplicaSeen("worker", [makePodFact("worker-0"), failed])] },
      { writeStatus: conflict },
    );
    await expect(pass()).rejects.toThrow("conflict");
    expect(did).toEqual([]);
  });

  it("stops when its view is found stale, and waits for a newer one", async () => {
    const isStale = { now: false };
    const did: string[] = [];
    const act = (_seen: ObservedJob, step: JobStep): Promise<void> => {
      did.push(step.kind);
      isStale.now = step.kind === "create-pods";
      return isStale.now ? Promise.reject(new Error("conflict")) : Promise.resolve();
    };
    const units = [makeGrantedUnit("worker-0", "worker-1")];
    const stale = world({ ...fresh, units }, { act, staleForMs: () => (isStale.now ? 700 : undefined) });
    expect(await stale.pass()).toEqual({ did: [], requeueAfterMs: 700 });
    expect([did, stale.failures]).toEqual([["create-pods"], ["create-pods"]]);
  });

  it("writes counts alone at most once per interval", async () => {
    const running = world({ ...fresh });
    await running.pass();
    await running.pass();
    const replicas = [makeReplicaSeen("worker", [makePodFact("worker-0", { ready: false }), makePodFact("worker-1")])];
    const { pass } = world({ ...running.snapshot(), replicas }, {}, { sinceWriteMs: 10 });
    expect(await pass()).toEqual({ did: [], requeueAfterMs: 1000 });
  });

  it("postpones the budget and the messages of a new job while many wait, up to a limit", async () => {
    const late = world(fresh, {}, { busyForMs: 14_999 });
    expect(await late.pass()).toEqual({ did: ["reserve", "create-pods", "create-service"], requeueAfterMs: 2000 });
    const tooLate = world(fresh, {}, { busyForMs: 15_000 });
    expect((await tooLate.pass()).did).toEqual(["reserve", "create-pods", "create-service", "sync-budget", "write"]);
  });

  it("postpones nothing of a started job", async () => {
    const status = { ...makeSnapshot().status, startMs: makeSnapshot().nowMs - 1000 };
    const { pass } = world({ ...fresh, status }, {}, { busyForMs: 0 });
    expect((await pass()).did).toContain("sync-budget");
  });

  it("is over without a failure when the job is deleted during its report", async () => {
    const writeStatus = (): Promise<"gone"> => Promise.resolve("gone");
    const after = world(fresh, { writeStatus });
    expect((await after.pass()).requeueAfterMs).toBeUndefined();
    const failed = makeEndedPod("worker-1", 1, { finishedMs: 0 });
    const first = world(
      { budget: 2, replicas: [makeReplicaSeen("worker", [makePodFact("worker-0"), failed])] },
      { writeStatus },
    );
    expect(await first.pass()).toEqual({ did: [], requeueAfterMs: undefined });
  });

  it("does nothing for a deleted job", async () => {
    const { pass } = world({ status: NEW_STATUS }, { observe: () => Promise.resolve({}) });
    expect(await pass()).toEqual({ did: [], requeueAfterMs: undefined });
  });
});
