import type { V1Pod, V1PodSpec } from "@kubernetes/client-node";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { buildPodStatus } from "./build-pod-status.ts";
import { decideEnding, GONE_GRACE_MS, planPod, type PodSnapshot, type PodStep } from "./plan-pod.ts";
import { type Ending, computePodPhase } from "./pod-phase.ts";
import { seedContainers } from "./seed-containers.ts";
import {
  computeBackoffMs,
  type ContainerRecord,
  type EndedRun,
  makeContainer,
  transitionContainer,
} from "./transition-container.ts";

const NOW = 1_000_000;

describe("computeBackoffMs", () => {
  it("is 0 before the first restart, then 10 s doubling to 5 min", () => {
    expect([0, 1, 2, 3, 4, 5, 6, 7, 50].map(computeBackoffMs)).toEqual([
      0, 10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000, 300_000,
    ]);
  });
});

describe("planPod", () => {
  it("starts init containers one after the other, then all others concurrently", () => {
    const first = makeContainer("first", "init", true);
    const second = makeContainer("second", "init", true);
    const mains = ["a", "b"].map((name) => makeContainer(name, "main", true));
    expect(plan({ containers: [first, second, ...mains] })).toEqual([start("first", "new")]);
    expect(plan({ containers: [ended(first, 0), second, ...mains] })).toEqual([start("second", "new")]);
    expect(plan({ containers: [ended(first, 0), ended(second, 0), ...mains] })).toEqual([
      start("a", "new"),
      start("b", "new"),
    ]);
  });

  it.each<[string, number, PodStep[]]>([
    ["Always", 0, [start("main", "restart")]],
    ["Always", 1, [start("main", "restart")]],
    ["OnFailure", 0, []],
    ["OnFailure", 1, [start("main", "restart")]],
    ["Never", 0, []],
    ["Never", 1, []],
  ])("with restartPolicy %s and exit code %d plans %j", (restartPolicy, exitCode, steps) => {
    expect(plan({ spec: { restartPolicy }, containers: [ended(main(), exitCode)] })).toEqual(steps);
  });

  it("treats Always as OnFailure for init containers, and leaves the pod alone after one failed with Never", () => {
    const init = makeContainer("init", "init", true);
    expect(plan({ containers: [ended(init, 0), main()] })).toEqual([start("main", "new")]);
    expect(plan({ containers: [ended(init, 1), main()] })).toEqual([start("init", "restart")]);
    expect(plan({ spec: { restartPolicy: "Never" }, containers: [ended(init, 1), main()] })).toEqual([]);
  });

  it("holds a container that failed again, and starts it after its back-off", () => {
    const twice = ended(running(ended(main(), 1)), 1);
    expect(plan({ containers: [twice] })).toEqual([
      { kind: "hold", container: "main", delayMs: 10_000, untilMs: NOW + 10_000, because: "crash-loop" },
      { kind: "wait", untilMs: NOW + 10_000, because: "crash-loop" },
    ]);
    const held = transitionContainer(twice, { event: "held", message: "back-off", untilMs: NOW + 10_000 });
    expect(plan({ containers: [held] })).toEqual([{ kind: "wait", untilMs: NOW + 10_000, because: "crash-loop" }]);
    expect(plan({ containers: [held], nowMs: NOW + 10_000 })).toEqual([start("main", "restart")]);
  });

  it("forgets earlier failures after a run of ten minutes", () => {
    const long = running(ended(running(ended(main(), 1)), 1));
    const run = endedRun(1, { startedAtMs: NOW - 600_000 });
    expect(plan({ containers: [transitionContainer(long, { event: "ended", run })] })).toEqual([
      start("main", "restart"),
    ]);
  });

  it("holds back an image that cannot be pulled", () => {
    const unpulled = transitionContainer(main(), { event: "delayed", reason: "ErrImagePull", retryAtMs: NOW + 5 });
    expect(plan({ containers: [unpulled] })).toEqual([
      { kind: "hold", container: "main", delayMs: 5, untilMs: NOW + 5, because: "image-pull" },
    ]);
  });

  it("retries a container later if its configuration was incomplete", () => {
    const waiting = transitionContainer(main(), {
      event: "delayed",
      reason: "CreateContainerConfigError",
      message: "no",
      retryAtMs: NOW + 5,
    });
    expect(plan({ containers: [waiting] })).toEqual([{ kind: "wait", untilMs: NOW + 5, because: "not-yet" }]);
    expect(plan({ containers: [waiting], nowMs: NOW + 5 })).toEqual([start("main", "retry")]);
  });

  it("signals SIGTERM once, SIGKILL once after the grace period, and deletes when nothing runs", () => {
    const ending: Ending = { because: "deleted", killAtMs: NOW + 100 };
    const deleted = { deletionTimestamp: new Date(NOW) };
    const wait: PodStep = { kind: "wait", untilMs: NOW + 100, because: "grace" };
    expect(plan({ metadata: deleted, ending, containers: [running(main())] })).toEqual([signal("SIGTERM"), wait]);
    const asked = transitionContainer(running(main()), { event: "signalled", signal: "SIGTERM" });
    expect(plan({ metadata: deleted, ending, containers: [asked] })).toEqual([wait]);
    const late = { metadata: deleted, ending, nowMs: NOW + 100 };
    expect(plan({ ...late, containers: [asked] })).toEqual([signal("SIGKILL")]);
    const killed = transitionContainer(asked, { event: "signalled", signal: "SIGKILL" });
    expect(plan({ ...late, containers: [killed] })).toEqual([]);
    expect(plan({ ...late, containers: [ended(killed, 137)] })).toEqual([{ kind: "delete", because: "ended" }]);
  });

  it("does not delete a pod that ended only because of its node's stop or its deadline", () => {
    for (const because of ["stopping", "deadline", "gone"] as const) {
      expect(plan({ ending: { because, killAtMs: NOW }, containers: [ended(main(), 0)] })).toEqual([]);
    }
  });

  it("settles: executing the steps leads to a plan with only waits, whatever the policy and the exit codes", () => {
    const policies = fc.constantFrom("Always", "OnFailure", "Never");
    const codes = fc.array(fc.integer({ min: 0, max: 2 }), { minLength: 1, maxLength: 4 });
    fc.assert(
      fc.property(policies, codes, fc.boolean(), (restartPolicy, exitCodes, withInit) => {
        let containers = [
          ...(withInit ? [makeContainer("init", "init", true)] : []),
          makeContainer("main", "main", withInit),
        ];
        for (const exitCode of exitCodes) {
          containers = settle(restartPolicy, containers);
          const steps = plan({ spec: { restartPolicy }, containers });
          expect(steps.filter((step) => step.kind !== "wait")).toEqual([]);
          containers = containers.map((each) => (each.state.is === "running" ? ended(each, exitCode) : each));
        }
      }),
    );
  });
});

describe("decideEnding", () => {
  const base = { containers: [running(main())], startedAtMs: NOW, ending: undefined, nowMs: NOW };

  it("gives a deleted pod its grace period, and lets a later request only shorten it", () => {
    const deleted = (seconds: number): V1Pod => ({
      metadata: { deletionTimestamp: new Date(NOW), deletionGracePeriodSeconds: seconds },
    });
    const first = decideEnding(deleted(30), base);
    expect(first).toEqual({ because: "deleted", killAtMs: NOW + 30_000 });
    expect(decideEnding(deleted(60), { ...base, ending: first, nowMs: NOW + 1 })).toEqual(first);
    expect(decideEnding(deleted(0), { ...base, ending: first, nowMs: NOW + 1 })?.killAtMs).toBe(NOW + 1);
  });

  it("ends a removed pod within a second", () => {
    expect(decideEnding(undefined, base)).toEqual({ because: "gone", killAtMs: NOW + GONE_GRACE_MS });
  });

  it("ends a pod at its deadline", () => {
    const pod: V1Pod = { spec: { containers: [], activeDeadlineSeconds: 5, terminationGracePeriodSeconds: 2 } };
    expect(decideEnding(pod, { ...base, nowMs: NOW + 4_999 })).toBeUndefined();
    expect(decideEnding(pod, { ...base, nowMs: NOW + 5_000 })).toEqual({ because: "deadline", killAtMs: NOW + 7_000 });
  });
});

describe("decideEnding, of pods that are over", () => {
  const late = { startedAtMs: NOW, ending: undefined, nowMs: NOW + 5_000 };

  it("leaves a pod unchanged that ended before its deadline", () => {
    const pod: V1Pod = { spec: { containers: [], restartPolicy: "Never", activeDeadlineSeconds: 5 } };
    expect(decideEnding(pod, { ...late, containers: [ended(main(), 0)] })).toBeUndefined();
  });

  it("ends the processes of a pod that another client has declared failed", () => {
    const pod: V1Pod = { spec: { containers: [], terminationGracePeriodSeconds: 1 }, status: { phase: "Failed" } };
    expect(decideEnding(pod, { ...late, containers: [running(main())] })).toEqual({
      because: "given-up",
      killAtMs: NOW + 6_000,
    });
  });
});

describe("computePodPhase", () => {
  const twoMains = (a: ContainerRecord["state"] | undefined, b: number): ContainerRecord[] => [
    a === undefined ? main() : { ...main(), state: a },
    ended(makeContainer("other", "main", false), b),
  ];
  it.each<[string, string, ContainerRecord[], Ending | undefined, string]>([
    ["nothing has started", "Always", [main()], undefined, "Pending"],
    ["a container runs", "Never", [running(main())], undefined, "Running"],
    ["an init container runs", "Never", [running(makeContainer("i", "init", true)), main()], undefined, "Pending"],
    [
      "an init container failed for good",
      "Never",
      [ended(makeContainer("i", "init", true), 1), main()],
      undefined,
      "Failed",
    ],
    ["all succeeded with Never", "Never", [ended(main(), 0)], undefined, "Succeeded"],
    ["all succeeded with Always", "Always", [ended(main(), 0)], undefined, "Running"],
    ["one failed with Never", "Never", twoMains({ is: "ended", run: endedRun(0) }, 3), undefined, "Failed"],
    ["one failed with OnFailure", "OnFailure", [ended(main(), 1)], undefined, "Running"],
    ["one has not started yet", "Never", twoMains(undefined, 0), undefined, "Pending"],
    ["it is deleted and its process still ends", "Always", [running(main())], deletedNow(), "Running"],
    ["it is deleted and its process ended well", "Always", [ended(main(), 0)], deletedNow(), "Succeeded"],
    ["it is deleted and its process was killed", "Always", [ended(main(), 137)], deletedNow(), "Failed"],
    ["it is deleted before it started", "Always", [main()], deletedNow(), "Failed"],
  ])("when %s (%s)", (_title, restartPolicy, containers, ending, phase) => {
    expect(computePodPhase({ spec: { containers: [], restartPolicy } }, containers, ending)).toBe(phase);
  });

  it("never changes once the pod has ended", () => {
    expect(computePodPhase({ status: { phase: "Failed" } }, [running(main())], undefined)).toBe("Failed");
  });
});

describe("buildPodStatus", () => {
  it("shows a container in back-off as kubectl does", () => {
    const held = transitionContainer(ended(running(ended(main(), 1)), 7), {
      event: "held",
      message: "back-off 10s restarting failed container=main",
      untilMs: NOW + 10_000,
    });
    const status = build([held]);
    expect(status.phase).toBe("Running");
    expect(status.containerStatuses).toMatchObject([
      {
        restartCount: 1,
        ready: false,
        state: { waiting: { reason: "CrashLoopBackOff" } },
        lastState: { terminated: { exitCode: 7, reason: "Error" } },
      },
    ]);
    expect(conditionsOf(status)).toMatchObject({
      Initialized: { status: "True" },
      ContainersReady: {
        status: "False",
        reason: "ContainersNotReady",
        message: "containers with unready status: [main]",
      },
      Ready: { status: "False", reason: "ContainersNotReady" },
    });
  });

  it("is ready when every container is, and gates are open", () => {
    const ready = transitionContainer(running(main()), { event: "probed", ready: true });
    expect(conditionsOf(build([ready]))).toMatchObject({ Ready: { status: "True" }, PodScheduled: { status: "True" } });
    const gated: V1Pod = { spec: { containers: [], readinessGates: [{ conditionType: "open" }] } };
    expect(conditionsOf(build([ready], gated))).toMatchObject({
      ContainersReady: { status: "True" },
      Ready: { status: "False", reason: "ReadinessGatesNotReady" },
    });
  });

  it("states why a pod that ended is not ready", () => {
    const pod: V1Pod = { spec: { containers: [], restartPolicy: "Never" } };
    expect(conditionsOf(build([ended(main(), 0)], pod))["Ready"]).toMatchObject({ reason: "PodCompleted" });
    expect(conditionsOf(build([ended(main(), 1)], pod))["Ready"]).toMatchObject({ reason: "PodFailed" });
  });

  it("keeps foreign conditions, and the time of an unchanged condition", () => {
    const since = new Date(5);
    const pod: V1Pod = {
      status: {
        conditions: [
          { type: "Initialized", status: "True", lastTransitionTime: since },
          { type: "Ready", status: "True", lastTransitionTime: since },
          { type: "example.com/other", status: "True", lastTransitionTime: since },
        ],
      },
    };
    const conditions = conditionsOf(build([main()], pod));
    expect(conditions["Initialized"]?.lastTransitionTime).toEqual(since);
    expect(conditions["Ready"]?.lastTransitionTime).toEqual(new Date(NOW));
    expect(conditions["example.com/other"]).toEqual(pod.status?.conditions?.[2]);
  });
});

describe("seedContainers", () => {
  it("counts containers that ran before the kubelet's restart as killed, and keeps the number of restarts", () => {
    const before = [running(ended(main(), 1))];
    const pod: V1Pod = { spec: { containers: [{ name: "main" }] }, status: build(before) };
    const [seeded] = seedContainers(pod, NOW);
    expect(seeded).toMatchObject({
      runs: 2,
      state: { is: "ended", run: { exitCode: 137, reason: "ContainerStatusUnknown" } },
      last: { exitCode: 1 },
    });
  });

  it("recognises containers that had ended, waited or never begun, also from the text of a watch", () => {
    for (const records of [[ended(main(), 3)], [main()], [ended(running(ended(main(), 1)), 0)]]) {
      const status = build(records);
      const pod = JSON.parse(JSON.stringify({ spec: { containers: [{ name: "main" }] }, status })) as V1Pod;
      const again = build(seedContainers(pod, NOW));
      expect(again.containerStatuses).toEqual(status.containerStatuses);
    }
  });
});

function settle(restartPolicy: string, containers: ContainerRecord[]): ContainerRecord[] {
  for (const step of plan({ spec: { restartPolicy }, containers })) {
    containers = containers.map((each) => {
      if (!("container" in step) || step.container !== each.name) return each;
      if (step.kind === "start") return running(each);
      if (step.kind === "hold") {
        return transitionContainer(each, { event: "held", message: "", untilMs: step.untilMs });
      }
      return each;
    });
  }
  return containers;
}

function plan(part: Partial<PodSnapshot> & { spec?: Partial<V1PodSpec>; metadata?: V1Pod["metadata"] }): PodStep[] {
  const { spec, metadata = {}, ...snapshot } = part;
  const pod: V1Pod = { metadata, spec: { containers: [], ...spec } };
  return planPod({ pod, containers: [], startedAtMs: NOW, ending: undefined, nowMs: NOW, ...snapshot });
}

function pod(spec: Partial<V1PodSpec>): V1Pod {
  return { metadata: {}, spec: { containers: [], ...spec } };
}

function build(containers: ContainerRecord[], pod: V1Pod = {}): ReturnType<typeof buildPodStatus> {
  return buildPodStatus({
    pod,
    containers,
    podIp: "127.1.0.2",
    hostIp: "127.0.0.1",
    startedAtMs: 0,
    ending: undefined,
    nowMs: NOW,
  });
}

type Conditions = NonNullable<ReturnType<typeof build>["conditions"]>;

function conditionsOf(status: ReturnType<typeof build>): Record<string, Conditions[number]> {
  return Object.fromEntries((status.conditions ?? []).map((each) => [each.type, each]));
}

function main(): ContainerRecord {
  return makeContainer("main", "main", false);
}

function running(record: ContainerRecord): ContainerRecord {
  return transitionContainer(record, { event: "started", atMs: NOW - 10, containerId: "process://main" });
}

function ended(record: ContainerRecord, exitCode: number): ContainerRecord {
  const run = endedRun(exitCode);
  const before = record.state.is === "running" ? record : running(record);
  return transitionContainer(before, { event: "ended", run });
}

function endedRun(exitCode: number, part: Partial<EndedRun> = {}): EndedRun {
  return {
    exitCode,
    reason: exitCode === 0 ? "Completed" : "Error",
    message: undefined,
    startedAtMs: NOW - 10,
    finishedAtMs: NOW,
    containerId: "process://main",
    ...part,
  };
}

function start(container: string, because: "new" | "restart" | "retry"): PodStep {
  return { kind: "start", container, because };
}

function signal(name: "SIGTERM" | "SIGKILL"): PodStep {
  return { kind: "signal", container: "main", signal: name, because: "deleted" };
}

function deletedNow(): Ending {
  return { because: "deleted", killAtMs: NOW };
}

describe("sidecars", () => {
  const side = makeContainer("side", "sidecar", true);
  const up = transitionContainer(side, { event: "started", atMs: NOW - 10, containerId: "process://side" });

  it("start in the order of the init containers, and the next one waits only until they have started", () => {
    const init = makeContainer("init", "init", true);
    expect(plan({ containers: [side, init, main()] })).toEqual([{ kind: "start", container: "side", because: "new" }]);
    expect(plan({ containers: [up, init, main()] })).toEqual([{ kind: "start", container: "init", because: "new" }]);
    expect(plan({ containers: [up, ended(init, 0), main()] })).toEqual([
      { kind: "start", container: "main", because: "new" },
    ]);
  });

  it("are restarted whenever they end, and block no running container", () => {
    const again = { kind: "start", container: "side", because: "restart" };
    expect(plan({ containers: [ended(up, 0), running(main())] })).toEqual([again]);
    expect(computePodPhase(pod({}), [ended(up, 1), running(main())], undefined)).toBe("Running");
  });

  it("are ended once the containers are over, without effect on the outcome of the pod", () => {
    const spec = pod({ restartPolicy: "Never" });
    const containers = [up, ended(main(), 0)];
    expect(computePodPhase(spec, containers, undefined)).toBe("Running");
    const ending = decideEnding(spec, { containers, startedAtMs: NOW, ending: undefined, nowMs: NOW });
    expect(ending).toMatchObject({ because: "completed" });
    expect(plan({ pod: spec, containers, ending })[0]).toMatchObject({ container: "side", signal: "SIGTERM" });
    expect(computePodPhase(spec, [ended(up, 143), ended(main(), 0)], ending)).toBe("Succeeded");
    expect(computePodPhase(spec, [ended(up, 0), ended(main(), 3)], ending)).toBe("Failed");
  });

  it("end after the others, the last first, and all of them after the grace period", () => {
    const second = { ...up, name: "second" };
    const signals = (containers: ContainerRecord[], killAtMs: number): (string | false)[] =>
      plan({ containers, ending: { because: "deleted", killAtMs } }).flatMap((step) =>
        step.kind === "signal" ? [`${step.container} ${step.signal}`] : [],
      );
    expect(signals([up, second, running(main())], NOW + 5)).toEqual(["main SIGTERM"]);
    expect(signals([up, second, ended(main(), 0)], NOW + 5)).toEqual(["second SIGTERM"]);
    expect(signals([up, second, running(main())], NOW)).toEqual(["side SIGKILL", "second SIGKILL", "main SIGKILL"]);
  });
});
