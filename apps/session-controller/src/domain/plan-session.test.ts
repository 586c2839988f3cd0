import { describe, expect, it } from "vitest";
import {
  makeLivePod,
  makePodSeen,
  POLICY,
  makeProvisioning,
  makeRecord,
  makeRunning,
  makeSnapshot,
  makeSpec,
  START_MS,
} from "../../test/samples.ts";
import { planSession, computeWakeAtMs } from "./plan-session.ts";
import type { SessionRecord } from "./session.ts";
import type { ReservationSeen, Snapshot } from "./snapshot.ts";
import type { PodSeen } from "./summarise-components.ts";
import { transitionRecord } from "./transition-record.ts";

/** Prints a step per line: kind, object, reason. */
function plan(more: Partial<Snapshot>): string[] {
  return planSession(makeSnapshot(more), POLICY).map((step) => {
    switch (step.kind) {
      case "create-pod":
        return `create ${step.component.name} on ${step.node}: ${step.because}`;
      case "record":
        return `${step.event.kind}: ${step.because}`;
      case "conclude":
        return `${step.verdict.kind} ${step.verdict.reason}: ${step.verdict.description}`;
      case "delete-pod":
        return `delete ${step.pod}: ${step.because}${step.force ? " by force" : ""}`;
      case "finish":
        return ["finish", ...step.warnings.map(({ code }) => code)].join(" ");
      case "confirm-logs-read":
        return ["logs lost:", ...step.warnings.map(({ code }) => code)].join(" ");
      case "explain-wait":
        return `wait: ${step.text}`;
      default:
        return `${step.kind}: ${step.because}`;
    }
  });
}

const machines = makeSpec().components.map(({ name, pool }) => ({ component: name, pool, node: `node-${name}` }));
const live = (name: string, deleting = false) => makeLivePod(makePodSeen(name), { deleting });
const ended = (name: string) => makeLivePod(makePodSeen(name, { health: "SUCCEEDED" }));
/** All three pods, ready unless the changes of the named pod state otherwise. */
const trio = (name: string, more: Partial<PodSeen>) =>
  ["driver", "client-0", "server-0"].map((each) => makeLivePod(makePodSeen(each, each === name ? more : {})));
const verdict = { kind: "DONE", atMs: START_MS, description: "well", reason: "" } as const;
const over = { verdict, logsCollected: true } as const;

const probedSpec = makeSpec({ components: makeSpec().components.map((each) => ({ ...each, readyPort: 10_000 })) });

it("announces the pods of the kinds of components that the session has", () => {
  const described = (kinds: readonly string[]): string | undefined => {
    const own = makeRecord(
      {},
      makeSpec({ components: makeSpec().components.filter(({ kind }) => kinds.includes(kind)) }),
    );
    const steps = planSession(
      makeSnapshot({ record: own, reservation: { state: "granted", id: "r-1", machines } }),
      POLICY,
    );
    const event = steps.flatMap((step) => (step.kind === "record" ? [step.event] : [])).at(-1);
    return event?.kind === "PROVISION" ? event.description : undefined;
  };
  expect(described(["driver", "server", "client"])).toBe("creating pods: servers, clients, driver");
  expect(described(["driver"])).toBe("creating pods: driver");
});

it("warns once of a priority that is above the maxPriority of its queue, and lowered to it", () => {
  const waiting = (id: string): ReservationSeen => {
    return { state: "waiting", id, because: undefined, lowered: { queue: "team-a", maxPriority: 10 } };
  };
  const noteOn = (record: SessionRecord, id: string) =>
    planSession(makeSnapshot({ record, reservation: waiting(id) }), POLICY).flatMap((step) =>
      step.kind === "note-reservation" ? [step] : [],
    );
  const record = makeRecord({}, makeSpec({ priority: 50 }));
  const warned = noteOn(record, "r-1").reduce<SessionRecord>(transitionRecord, record);
  expect(warned.warnings).toEqual([
    { code: "PRIORITY_LOWERED", message: "the priority 50 is lowered to 10, the maxPriority of the queue team-a" },
  ]);
  expect(noteOn(record, "r-1").reduce<SessionRecord>(transitionRecord, warned)).toEqual(warned);
  expect(noteOn(warned, "r-2").reduce<SessionRecord>(transitionRecord, warned).warnings).toEqual(warned.warnings);
});

describe("a session in the queue", () => {
  it.each<[string, Partial<Snapshot>, string[]]>([
    ["asks for its machines first", {}, ["reserve: not-asked"]],
    [
      "states why its request failed before it makes the next one",
      { trouble: "the list of all nodes (POOLS_NOT_KNOWN_YET) is not available" },
      ["wait: the list of all nodes (POOLS_NOT_KNOWN_YET) is not available"],
    ],
    [
      "makes the next request once that is stated",
      {
        trouble: "reservation is not available",
        record: makeRecord({ waitingBecause: "reservation is not available" }),
      },
      ["reserve: not-asked"],
    ],
    [
      "states why it waits",
      {
        reservation: {
          state: "waiting",
          id: "r-1",
          because: { code: "POOL_AVAILABILITY", pool: "workers", requested: 2, available: 1, ahead: 3 },
        },
      },
      [
        "note-reservation: ledger-answered",
        "wait: pool workers has 1 machine free, 2 are needed; 3 requests are ahead",
      ],
    ],
    [
      "notes the reservation under which it waits before it is cancelled, so that exactly this one is withdrawn",
      {
        reservation: { state: "waiting", id: "r-1", because: undefined },
        record: makeRecord({ cancelRequested: true }),
      },
      ["note-reservation: ledger-answered", "CANCELLED : cancelled on request"],
    ],
    [
      "leaves the request to the replica that hears of a grant",
      {
        reservation: { state: "waiting", id: "r-1", because: undefined },
        record: makeRecord({ waitingBecause: "the ledger has given no reason yet" }),
      },
      ["note-reservation: ledger-answered"],
    ],
    [
      "begins when every machine is granted",
      { reservation: { state: "granted", id: "r-1", machines } },
      ["note-reservation: ledger-answered", "accept: machines-granted", "PROVISION: accepted"],
    ],
    [
      "ends at once when a pool does not exist",
      { reservation: { state: "refused", fault: { code: "pool_unknown", pool: "gpus" } } },
      ["ERROR POOL_UNKNOWN: pool gpus does not exist"],
    ],
    [
      "ends at once when a pool is too small",
      {
        reservation: { state: "refused", fault: { code: "pool_capacity", pool: "workers", requested: 9, capacity: 2 } },
      },
      ["ERROR POOL_CAPACITY: pool workers has 2 machines at most, 9 are needed: request fewer, or enlarge the pool"],
    ],
    [
      "is cancelled when the user asks",
      { record: makeRecord({ cancelRequested: true }) },
      ["CANCELLED : cancelled on request"],
    ],
    [
      "gives up when its time in the queue is over",
      {
        nowMs: START_MS + 86_400_000,
        reservation: { state: "waiting", id: "r-1", because: undefined },
        record: makeRecord({ waitingBecause: "the ledger has given no reason yet" }),
      },
      [
        "note-reservation: ledger-answered",
        "ERROR QUEUE_TIMEOUT: no machines within 1d; the ledger has given no reason yet",
      ],
    ],
    [
      "asks the ledger before it gives up, because the news of a grant may be lost",
      { nowMs: START_MS + 86_400_000, reservation: { state: "unknown" } },
      ["reserve: not-asked"],
    ],
    [
      "blames the infrastructure when the ledger could not be asked at all",
      {
        nowMs: START_MS + 86_400_000,
        trouble: "reservation is not available",
        record: makeRecord({ waitingBecause: "reservation is not available" }),
      },
      ["INTERNAL_ERROR : no machines within 1d; reservation is not available"],
    ],
    [
      "takes a grant that comes with the last second",
      { nowMs: START_MS + 86_400_000, reservation: { state: "granted", id: "r-1", machines } },
      ["note-reservation: ledger-answered", "accept: machines-granted", "PROVISION: accepted"],
    ],
    [
      "does not run with a machine missing",
      { reservation: { state: "granted", id: "r-1", machines: machines.slice(1) } },
      ["note-reservation: ledger-answered", "INTERNAL_ERROR : the ledger granted no machine for driver"],
    ],
  ])("%s", (_title, world, expected) => {
    expect(plan(world)).toEqual(expected);
  });
});

it("creates each pod in the pool that its component was granted", () => {
  const base = makeProvisioning([]);
  const components = base.components.map((each) => ({ ...each, pool: `granted-${each.name}` }));
  const steps = planSession(makeSnapshot({ record: { ...base, components } }), POLICY);
  expect(steps).toMatchObject([{ kind: "create-pod", pool: "granted-server-0", node: "node-server-0" }]);
});

describe("a session that is provisioned", () => {
  const created = (...names: string[]) => ({ record: makeProvisioning(names) });
  it.each<[string, Partial<Snapshot>, string[]]>([
    [
      "starts with the servers, on the machines that were granted",
      created(),
      ["create server-0 on node-server-0: accepted"],
    ],
    [
      "continues with the clients once the servers are ready",
      { ...created("server-0"), pods: [makePodSeen("server-0")] },
      ["note-components: pods-changed", "create client-0 on node-client-0: servers-ready"],
    ],
    [
      "waits for a server that has no address yet",
      { ...created("server-0"), pods: [makePodSeen("server-0", { podIp: "" })] },
      ["note-components: pods-changed"],
    ],
    [
      "waits for a server that is not ready, with the reason",
      { ...created("server-0"), pods: [makePodSeen("server-0", { health: "NOT_READY", reason: "ImagePullBackOff" })] },
      ["note-components: pods-changed", "wait: server-0 is NOT_READY (ImagePullBackOff)"],
    ],
    [
      "names the address that does not answer while it waits for a server",
      {
        record: makeProvisioning(["server-0"], { spec: probedSpec }),
        pods: [makePodSeen("server-0", { health: "NOT_READY", reason: "ProbeFailing", message: "of container main" })],
      },
      [
        "note-components: pods-changed",
        "wait: server-0 is NOT_READY (ProbeFailing: no connection to 10.0.0.8:10000, its readyPort)",
      ],
    ],
    [
      "is not taken in by the readiness of an earlier pod of the same name",
      { ...created("server-0"), pods: [makePodSeen("server-0", { uid: "uid-of-yesterday" })] },
      ["wait: server-0 is CREATED"],
    ],
    [
      "starts the driver last",
      { ...created("server-0", "client-0"), pods: [makePodSeen("server-0"), makePodSeen("client-0")] },
      ["note-components: pods-changed", "create driver on node-driver: workers-ready"],
    ],
    [
      "does not wait for a worker that has already ended well",
      {
        ...created("server-0", "client-0"),
        pods: [makePodSeen("server-0"), makePodSeen("client-0", { health: "SUCCEEDED", exitCode: 0 })],
      },
      ["note-components: pods-changed", "create driver on node-driver: workers-ready"],
    ],
    [
      "ends when a worker crashes at once",
      { ...created("server-0"), pods: [makePodSeen("server-0", { health: "FAILED", reason: "Error", exitCode: 3 })] },
      ["note-components: pods-changed", "ERROR COMPONENT_FAILED: server server-0 failed with exit code 3: Error"],
    ],
    [
      "ends when one of its pods is deleted by hand",
      { ...created("server-0"), pods: [makePodSeen("server-0", { health: "NOT_READY", deleted: true })] },
      ["note-components: pods-changed", "ERROR COMPONENT_FAILED: server server-0 failed: the pod was deleted"],
    ],
    [
      "runs when all are ready",
      {
        ...created("server-0", "client-0", "driver"),
        pods: ["server-0", "client-0", "driver"].map((name) => makePodSeen(name)),
      },
      ["note-components: pods-changed", "RUN: driver-ready"],
    ],
    [
      "is done when the driver ends before it was seen ready",
      {
        ...created("server-0", "client-0", "driver"),
        pods: [makePodSeen("driver", { health: "SUCCEEDED", exitCode: 0 })],
      },
      ["note-components: pods-changed", "RUN: driver-ended", "DONE : the driver ended with exit code 0"],
    ],
    [
      "ends when the API server will not have a pod",
      {
        ...created(),
        obstacles: [{ kind: "refused", component: "server-0", reason: "POD_REFUSED", message: "image is invalid" }],
      },
      ["ERROR POD_REFUSED: server-0: image is invalid"],
    ],
    [
      "removes a pod that an earlier session of its name has left",
      { ...created(), obstacles: [{ kind: "leftover", component: "server-0", pod: "bench-server-0", uid: "old" }] },
      ["delete bench-server-0: leftover"],
    ],
    [
      "ends when not all is ready in time, naming what is missing",
      {
        nowMs: START_MS + 900_001,
        record: makeProvisioning(["server-0"]),
        livePods: [makeLivePod(makePodSeen("server-0", { health: "NOT_READY" }))],
      },
      [
        "note-components: pods-changed",
        "ERROR TIMEOUT: not all components were ready within 15m: driver is PENDING, client-0 is PENDING, server-0 is NOT_READY",
      ],
    ],
    [
      "blames the infrastructure when its time is over and its pods could not be listed",
      {
        nowMs: START_MS + 900_001,
        trouble: "kubernetes is not available",
        record: makeProvisioning(["driver", "client-0", "server-0"]),
      },
      [
        "INTERNAL_ERROR : not all components were ready within 15m: driver is CREATED, client-0 is CREATED, server-0 is CREATED; kubernetes is not available",
      ],
    ],
    [
      "is done when the list at the end of its time shows a success of the driver that no watcher published",
      {
        nowMs: START_MS + 900_001,
        record: makeProvisioning(["driver", "client-0", "server-0"]),
        livePods: trio("driver", { health: "SUCCEEDED", exitCode: 0 }),
      },
      ["note-components: pods-changed", "RUN: driver-ended", "DONE : the driver ended with exit code 0"],
    ],
    [
      "makes the clients once the API server lists the servers as ready, though no watcher published it",
      { record: makeProvisioning(["server-0"]), livePods: [live("server-0")] },
      ["note-components: pods-changed", "create client-0 on node-client-0: servers-ready"],
    ],
    [
      "blames the infrastructure when pods could not be made in time",
      {
        nowMs: START_MS + 900_001,
        trouble: "kubernetes is not available",
        record: makeProvisioning([], { waitingBecause: "kubernetes is not available" }),
        livePods: [],
      },
      [
        "INTERNAL_ERROR : not all components were ready within 15m: driver is PENDING, client-0 is PENDING, server-0 is PENDING; kubernetes is not available",
      ],
    ],
  ])("%s", (_title, world, expected) => {
    expect(plan(world)).toEqual(expected);
  });

  it("gives the driver servers first, then clients, each in declared order", () => {
    const [, create] = planSession(
      makeSnapshot({
        record: makeProvisioning(["server-0", "client-0"]),
        pods: [makePodSeen("client-0"), makePodSeen("server-0")],
      }),
      POLICY,
    );
    expect(create).toMatchObject({
      workers: [
        { name: "server-0", kind: "server" },
        { name: "client-0", kind: "client" },
      ],
    });
  });
});

describe("a session that runs", () => {
  it.each<[string, Partial<Snapshot>, string[]]>([
    ["plans nothing while nothing happens", {}, []],
    ["notes that its executor outlives it", { record: makeRunning({ attempts: 2 }) }, ["confirm-quiet: nothing-to-do"]],
    [
      "notes no such thing while something fails",
      {
        record: makeRunning({ attempts: 2, waitingBecause: "kubernetes is not available" }),
        trouble: "kubernetes is not available",
      },
      [],
    ],
    [
      "is done when the driver succeeds",
      { pods: [makePodSeen("driver", { health: "SUCCEEDED", exitCode: 0 })] },
      ["note-components: pods-changed", "DONE : the driver ended with exit code 0"],
    ],
    [
      "ends with the driver's failure",
      { pods: [makePodSeen("driver", { health: "FAILED", exitCode: 1 })] },
      ["note-components: pods-changed", "ERROR COMPONENT_FAILED: driver failed with exit code 1"],
    ],
    [
      "ignores a worker that ends well",
      { pods: [makePodSeen("client-0", { health: "SUCCEEDED", exitCode: 0 })] },
      ["note-components: pods-changed"],
    ],
    [
      "names the worker that fails",
      { pods: [makePodSeen("client-0", { health: "FAILED", exitCode: 137, reason: "OOMKilled" })] },
      ["note-components: pods-changed", "ERROR COMPONENT_FAILED: client client-0 failed with exit code 137: OOMKilled"],
    ],
    [
      "lets the driver's success win over a worker's failure",
      {
        pods: [
          makePodSeen("driver", { health: "SUCCEEDED", exitCode: 0 }),
          makePodSeen("client-0", { health: "FAILED", exitCode: 1 }),
        ],
      },
      ["note-components: pods-changed", "DONE : the driver ended with exit code 0"],
    ],
    [
      "names the driver first when several failed",
      { pods: [makePodSeen("server-0", { health: "FAILED" }), makePodSeen("driver", { health: "FAILED" })] },
      ["note-components: pods-changed", "ERROR COMPONENT_FAILED: driver failed"],
    ],
    [
      "ends when its time is over",
      { nowMs: START_MS + 900_001, livePods: [live("driver"), live("client-0"), live("server-0")] },
      ["ERROR TIMEOUT: the driver did not end within 15m"],
    ],
    [
      "is done when the list at the end of its time is newer than what was published, and shows a success",
      {
        nowMs: START_MS + 900_001,
        pods: [makePodSeen("driver"), makePodSeen("client-0"), makePodSeen("server-0")],
        livePods: trio("driver", { health: "SUCCEEDED", exitCode: 0, resourceVersion: 2 }),
      },
      ["note-components: pods-changed", "DONE : the driver ended with exit code 0"],
    ],
    [
      "keeps a published end that is older than the list",
      {
        pods: [makePodSeen("client-0", { health: "FAILED", reason: "ErrImagePull" })],
        livePods: trio("client-0", { health: "UNKNOWN", resourceVersion: 2 }),
      },
      ["note-components: pods-changed", "ERROR COMPONENT_FAILED: client client-0 failed: ErrImagePull"],
    ],
    [
      "blames the infrastructure when its time is over and its pods could not be listed",
      { nowMs: START_MS + 900_001, trouble: "kubernetes is not available" },
      ["INTERNAL_ERROR : the driver did not end within 15m; kubernetes is not available"],
    ],
    [
      "is cancelled when the user asks",
      { record: makeRunning({ cancelRequested: true }) },
      ["CANCELLED : cancelled on request"],
    ],
    [
      "does not cancel what has already succeeded",
      {
        record: makeRunning({ cancelRequested: true }),
        pods: [makePodSeen("driver", { health: "SUCCEEDED", exitCode: 0 })],
      },
      ["note-components: pods-changed", "DONE : the driver ended with exit code 0"],
    ],
  ])("%s", (_title, world, expected) => {
    expect(plan({ record: makeRunning(), nowMs: START_MS + 3, ...world })).toEqual(expected);
  });
});

describe("a session that is over", () => {
  const slow = START_MS + 2000;
  const late = START_MS + 125_000;
  it.each<[string, Partial<Snapshot>, string[]]>([
    [
      "keeps the logs before anything is deleted",
      { record: makeRunning({ verdict }), livePods: [live("driver")] },
      ["collect-logs: session-over"],
    ],
    [
      "names what keeps the pods from being listed",
      { record: makeRunning({ verdict }), trouble: "kubernetes is not available" },
      ["wait: kubernetes is not available"],
    ],
    [
      "waits while they are read",
      { record: makeRunning({ verdict }), livePods: [live("driver"), live("server-0")], isReading: true },
      [],
    ],
    [
      "may still end its executor while they are read",
      { record: makeRunning({ verdict, attempts: 2 }), livePods: [live("driver")], isReading: true },
      [],
    ],
    [
      "has not ended its executor within ten seconds, whatever is under way",
      { record: makeRunning({ verdict, attempts: 2 }), livePods: [live("driver")], isReading: true, heldMs: 10_000 },
      ["confirm-quiet: survived"],
    ],
    [
      "deletes the pods whose logs are kept while others are still read",
      {
        record: makeRunning({ verdict, logsRead: ["bench-server-0"] }),
        livePods: [live("driver"), live("server-0")],
        isReading: true,
      },
      ["delete bench-server-0: session-over"],
    ],
    [
      "deletes the pods on a lost node at once, whose logs cannot be read",
      {
        record: makeRunning({ verdict }),
        livePods: [live("driver"), live("server-0")],
        nodesLost: new Map([["node-driver", "not-ready"]]),
        isReading: true,
      },
      ["delete bench-driver: session-over"],
    ],
    [
      "gives the machines back while a log is read, once every pod is gone",
      { record: makeRunning({ verdict }), livePods: [], isReading: true },
      ["release: pods-ended"],
    ],
    [
      "gives the machines back while a log is read, once every pod has ended",
      { record: makeRunning({ verdict }), livePods: [ended("driver"), ended("server-0")], isReading: true },
      ["release: pods-ended"],
    ],
    [
      "keeps the machines while a pod runs",
      { record: makeRunning({ verdict }), livePods: [ended("driver"), live("server-0")], isReading: true },
      [],
    ],
    [
      "gives the machines back once",
      { record: makeRunning({ verdict, released: true }), livePods: [ended("driver")], isReading: true },
      [],
    ],
    [
      "reads the logs of a pod that was made late, too",
      { record: makeRunning({ verdict, logsRead: ["bench-driver"] }), livePods: [live("driver"), live("client-0")] },
      ["collect-logs: session-over", "delete bench-driver: session-over"],
    ],
    [
      "reads no more once the rest is gone, and names the lost logs",
      { record: makeRunning({ verdict, logsRead: ["bench-server-0"] }), livePods: [live("server-0", true)] },
      ["logs lost: RESULT_LOST LOGS_LOST LOGS_LOST"],
    ],
    ["waits for the list of its pods", { record: makeRunning({ verdict }) }, []],
    [
      "gives up no log that is still read, however late it is",
      { nowMs: late, record: makeRunning({ verdict }), livePods: [live("driver", true)], isReading: true },
      [],
    ],
    [
      "deletes every pod that is there",
      { nowMs: slow, record: makeRunning(over), livePods: [live("driver"), live("server-0", true)] },
      ["wait: 2 pods are not gone yet", "delete bench-driver: session-over"],
    ],
    [
      "does not name the remaining pods of a clean-up that has just begun",
      { nowMs: slow - 1, record: makeRunning(over), livePods: [live("driver"), live("server-0", true)] },
      ["delete bench-driver: session-over"],
    ],
    [
      "waits while pods are going away",
      { record: makeRunning({ ...over, waitingBecause: "1 pod is not gone yet" }), livePods: [live("driver", true)] },
      [],
    ],
    [
      "believes that the pods are gone when the API server lists none",
      { record: makeRunning(over), livePods: [] },
      ["confirm-pods-gone: none-listed", "release: pods-gone"],
    ],
    [
      "does not release the machines twice when the API server lists no pods",
      { record: makeRunning({ ...over, released: true }), livePods: [] },
      ["confirm-pods-gone: none-listed"],
    ],
    [
      "gives the machines back when the pods are gone",
      { record: makeRunning({ ...over, podsDeleted: true }) },
      ["release: pods-gone"],
    ],
    ["reports the outcome last", { record: makeRunning({ ...over, podsDeleted: true, released: true }) }, ["finish"]],
    [
      "forces the pods away that a lost node keeps, and no others",
      {
        nowMs: slow,
        record: makeRunning(over),
        livePods: [
          { ...live("driver", true), overdueOn: { state: "gone" } },
          { ...live("server-0", true), overdueOn: { state: "not-ready", sinceMs: START_MS - POLICY.nodeLostMs } },
          { ...live("client-0", true), overdueOn: { state: "ready" } },
        ],
      },
      [
        "wait: 3 pods are not gone yet",
        "delete bench-driver: node-gone by force",
        "delete bench-server-0: node-not-ready by force",
      ],
    ],
    [
      "reports with a warning when pods do not go away, and keeps the machines",
      { nowMs: late, record: makeRunning(over), livePods: [live("driver", true)] },
      ["finish PODS_NOT_GONE"],
    ],
    [
      "reports with warnings when the API server stays away",
      { nowMs: late, record: makeRunning({ verdict }), trouble: "kubernetes is not available" },
      ["finish LOGS_LOST RESULT_LOST PODS_NOT_GONE"],
    ],
    [
      "tries the release before it gives up on it",
      { nowMs: late, record: makeRunning({ ...over, podsDeleted: true }) },
      ["release: pods-gone"],
    ],
    [
      "reports with a warning when the ledger stays away",
      { nowMs: late, record: makeRunning({ ...over, podsDeleted: true }), trouble: "reservation is not available" },
      ["finish NOT_RELEASED"],
    ],
    [
      "plans nothing once it is reported",
      { record: makeRunning({ ...over, finishedAtMs: START_MS }), livePods: [live("driver")] },
      [],
    ],
  ])("%s", (_title, world, expected) => {
    expect(plan(world)).toEqual(expected);
  });
});

describe("computeWakeAtMs", () => {
  it("is in time for each limit", () => {
    const waiting = { state: "waiting", id: "r-1", because: undefined } as const;
    expect(computeWakeAtMs(makeSnapshot({ reservation: waiting }), POLICY)).toBe(START_MS + 86_400_000);
    expect(computeWakeAtMs(makeSnapshot({ record: makeRunning() }), POLICY)).toBe(START_MS + 1 + 900_000);
    const unlimited = makeRunning({ spec: makeSpec({ timeoutMs: 0 }) });
    expect(computeWakeAtMs(makeSnapshot({ record: unlimited }), POLICY)).toBeUndefined();
    expect(computeWakeAtMs(makeSnapshot({ record: makeRunning({ verdict }) }), POLICY)).toBe(
      START_MS + POLICY.lookAgainMs,
    );
    const reported = makeSnapshot({ record: makeRunning({ verdict }), isProgressReported: true });
    const lateAtMs = verdict.atMs + POLICY.cleanupLimitMs + reported.record.spec.killAfterMs;
    expect(computeWakeAtMs(reported, POLICY)).toBe(lateAtMs);
    expect(computeWakeAtMs({ ...reported, nowMs: lateAtMs }, POLICY)).toBeUndefined();
    expect(computeWakeAtMs(makeSnapshot({ record: makeRunning({ finishedAtMs: 1 }) }), POLICY)).toBeUndefined();
  });
});
