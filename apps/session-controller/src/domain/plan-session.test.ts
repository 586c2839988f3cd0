import { describe, expect, it } from "vitest";
import { podSeen, POLICY, provisioning, record, running, snapshot, spec, START_MS } from "../../test/samples.ts";
import { planSession, wakeAtMs } from "./plan-session.ts";
import type { Snapshot } from "./snapshot.ts";

/** One line a step: what, of what, why. */
function plan(more: Partial<Snapshot>): string[] {
  return planSession(snapshot(more), POLICY).map((step) => {
    switch (step.do) {
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
      case "explain-wait":
        return `wait: ${step.text}`;
      default:
        return `${step.do}: ${step.because}`;
    }
  });
}

const machines = ["driver", "client-0", "server-0"].map((name) => ({ component: name, node: `node-${name}` }));
const live = (name: string, deleting = false) => ({
  pod: `bench-${name}`,
  uid: `uid-${name}`,
  deleting,
  overdueOn: undefined,
  containers: ["main"],
  leftText: "",
});
const verdict = { kind: "DONE", atMs: START_MS, description: "well", reason: "" } as const;
const over = { verdict, logsCollected: true } as const;

describe("a session in the queue", () => {
  it.each<[string, Partial<Snapshot>, string[]]>([
    ["asks for its machines first", {}, ["reserve: not-asked"]],
    [
      "says why it waits",
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
        record: record({ cancelRequested: true }),
      },
      ["note-reservation: ledger-answered", "CANCELLED : cancelled on request"],
    ],
    [
      "leaves the asking to whoever hears of a grant",
      {
        reservation: { state: "waiting", id: "r-1", because: undefined },
        record: record({ waitingBecause: "the ledger has not said why" }),
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
      [
        "ERROR POOL_CAPACITY: pool workers has 2 machines at most, 9 are needed: ask for fewer, or let the pool have more",
      ],
    ],
    [
      "is cancelled when the user asks",
      { record: record({ cancelRequested: true }) },
      ["CANCELLED : cancelled on request"],
    ],
    [
      "gives up when its time in the queue is over",
      {
        nowMs: START_MS + 86_400_000,
        reservation: { state: "waiting", id: "r-1", because: undefined },
        record: record({ waitingBecause: "the ledger has not said why" }),
      },
      [
        "note-reservation: ledger-answered",
        "ERROR QUEUE_TIMEOUT: no machines within 86400000 ms; the ledger has not said why",
      ],
    ],
    [
      "blames the infrastructure when the ledger could not be asked at all",
      {
        nowMs: START_MS + 86_400_000,
        trouble: "reservation is not available",
        record: record({ waitingBecause: "reservation is not available" }),
      },
      ["INTERNAL_ERROR : no machines within 86400000 ms; reservation is not available"],
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

describe("a session that is provisioned", () => {
  const created = (...names: string[]) => ({ record: provisioning(names) });
  it.each<[string, Partial<Snapshot>, string[]]>([
    [
      "starts with the servers, on the machines that were granted",
      created(),
      ["create server-0 on node-server-0: accepted"],
    ],
    [
      "goes on with the clients once the servers are ready",
      { ...created("server-0"), pods: [podSeen("server-0")] },
      ["note-components: pods-changed", "create client-0 on node-client-0: servers-ready"],
    ],
    [
      "waits for a server that has no address yet",
      { ...created("server-0"), pods: [podSeen("server-0", { podIp: "" })] },
      ["note-components: pods-changed"],
    ],
    [
      "waits for a server that is not ready, and says so",
      { ...created("server-0"), pods: [podSeen("server-0", { health: "NOT_READY", reason: "ImagePullBackOff" })] },
      ["note-components: pods-changed", "wait: server-0 is NOT_READY (ImagePullBackOff)"],
    ],
    [
      "is not taken in by the readiness of an earlier pod of the same name",
      { ...created("server-0"), pods: [podSeen("server-0", { uid: "uid-of-yesterday" })] },
      ["wait: server-0 is CREATED"],
    ],
    [
      "starts the driver last",
      { ...created("server-0", "client-0"), pods: [podSeen("server-0"), podSeen("client-0")] },
      ["note-components: pods-changed", "create driver on node-driver: workers-ready"],
    ],
    [
      "does not wait for a worker that has already ended well",
      {
        ...created("server-0", "client-0"),
        pods: [podSeen("server-0"), podSeen("client-0", { health: "SUCCEEDED", exitCode: 0 })],
      },
      ["note-components: pods-changed", "create driver on node-driver: workers-ready"],
    ],
    [
      "ends when a worker crashes at once",
      { ...created("server-0"), pods: [podSeen("server-0", { health: "FAILED", reason: "Error", exitCode: 3 })] },
      ["note-components: pods-changed", "ERROR COMPONENT_FAILED: server server-0 failed with exit code 3: Error"],
    ],
    [
      "ends when somebody deletes one of its pods",
      { ...created("server-0"), pods: [podSeen("server-0", { health: "NOT_READY", deleted: true })] },
      ["note-components: pods-changed", "ERROR COMPONENT_FAILED: server server-0 failed: the pod was deleted"],
    ],
    [
      "runs when all are ready",
      {
        ...created("server-0", "client-0", "driver"),
        pods: ["server-0", "client-0", "driver"].map((name) => podSeen(name)),
      },
      ["note-components: pods-changed", "RUN: driver-ready"],
    ],
    [
      "is done when the driver ends before it was seen ready",
      { ...created("server-0", "client-0", "driver"), pods: [podSeen("driver", { health: "SUCCEEDED", exitCode: 0 })] },
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
      { nowMs: START_MS + 900_001, record: provisioning(["server-0"], { waitingBecause: "server-0 is CREATED" }) },
      [
        "ERROR TIMEOUT: not all components were ready within 900000 ms: driver is PENDING, client-0 is PENDING, server-0 is CREATED",
      ],
    ],
    [
      "blames the infrastructure when pods could not be made in time",
      {
        nowMs: START_MS + 900_001,
        trouble: "kubernetes is not available",
        record: provisioning([], { waitingBecause: "kubernetes is not available" }),
      },
      [
        "INTERNAL_ERROR : not all components were ready within 900000 ms: driver is PENDING, client-0 is PENDING, server-0 is PENDING; kubernetes is not available",
      ],
    ],
  ])("%s", (_title, world, expected) => {
    expect(plan(world)).toEqual(expected);
  });

  it("tells the driver of servers first, then clients, each in declared order", () => {
    const [, create] = planSession(
      snapshot({ record: provisioning(["server-0", "client-0"]), pods: [podSeen("client-0"), podSeen("server-0")] }),
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
    [
      "is done when the driver succeeds",
      { pods: [podSeen("driver", { health: "SUCCEEDED", exitCode: 0 })] },
      ["note-components: pods-changed", "DONE : the driver ended with exit code 0"],
    ],
    [
      "ends with the driver's failure",
      { pods: [podSeen("driver", { health: "FAILED", exitCode: 1 })] },
      ["note-components: pods-changed", "ERROR COMPONENT_FAILED: driver failed with exit code 1"],
    ],
    [
      "ignores a worker that ends well",
      { pods: [podSeen("client-0", { health: "SUCCEEDED", exitCode: 0 })] },
      ["note-components: pods-changed"],
    ],
    [
      "names the worker that fails",
      { pods: [podSeen("client-0", { health: "FAILED", exitCode: 137, reason: "OOMKilled" })] },
      ["note-components: pods-changed", "ERROR COMPONENT_FAILED: client client-0 failed with exit code 137: OOMKilled"],
    ],
    [
      "lets the driver's success win over a worker's failure",
      {
        pods: [
          podSeen("driver", { health: "SUCCEEDED", exitCode: 0 }),
          podSeen("client-0", { health: "FAILED", exitCode: 1 }),
        ],
      },
      ["note-components: pods-changed", "DONE : the driver ended with exit code 0"],
    ],
    [
      "names the driver first when several failed",
      { pods: [podSeen("server-0", { health: "FAILED" }), podSeen("driver", { health: "FAILED" })] },
      ["note-components: pods-changed", "ERROR COMPONENT_FAILED: driver failed"],
    ],
    [
      "ends when its time is over",
      { nowMs: START_MS + 900_001 },
      ["ERROR TIMEOUT: the driver did not end within 900000 ms"],
    ],
    [
      "is cancelled when the user asks",
      { record: running({ cancelRequested: true }) },
      ["CANCELLED : cancelled on request"],
    ],
    [
      "does not cancel what has already succeeded",
      { record: running({ cancelRequested: true }), pods: [podSeen("driver", { health: "SUCCEEDED", exitCode: 0 })] },
      ["note-components: pods-changed", "DONE : the driver ended with exit code 0"],
    ],
  ])("%s", (_title, world, expected) => {
    expect(plan({ record: running(), nowMs: START_MS + 3, ...world })).toEqual(expected);
  });
});

describe("a session that is over", () => {
  const late = START_MS + 125_000;
  it.each<[string, Partial<Snapshot>, string[]]>([
    [
      "keeps the logs before anything is deleted",
      { record: running({ verdict }), livePods: [live("driver")] },
      ["collect-logs: session-over"],
    ],
    ["waits for the list of its pods", { record: running({ verdict }) }, []],
    [
      "deletes every pod that is there",
      { record: running(over), livePods: [live("driver"), live("server-0", true)] },
      ["wait: 2 pods are not gone yet", "delete bench-driver: session-over"],
    ],
    [
      "waits while pods are going away",
      { record: running({ ...over, waitingBecause: "1 pod is not gone yet" }), livePods: [live("driver", true)] },
      [],
    ],
    [
      "believes that the pods are gone when the API server lists none",
      { record: running(over), livePods: [] },
      ["confirm-pods-gone: none-listed"],
    ],
    [
      "gives the machines back when the pods are gone",
      { record: running({ ...over, podsDeleted: true }) },
      ["release: pods-gone"],
    ],
    ["reports the outcome last", { record: running({ ...over, podsDeleted: true, released: true }) }, ["finish"]],
    [
      "forces the pods away that a lost node keeps, and no others",
      {
        record: running(over),
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
      { nowMs: late, record: running(over), livePods: [live("driver", true)] },
      ["finish PODS_NOT_GONE"],
    ],
    [
      "reports with warnings when the API server stays away",
      { nowMs: late, record: running({ verdict }), trouble: "kubernetes is not available" },
      ["finish LOGS_LOST RESULT_LOST PODS_NOT_GONE"],
    ],
    [
      "tries the release before it gives up on it",
      { nowMs: late, record: running({ ...over, podsDeleted: true }) },
      ["release: pods-gone"],
    ],
    [
      "reports with a warning when the ledger stays away",
      { nowMs: late, record: running({ ...over, podsDeleted: true }), trouble: "reservation is not available" },
      ["finish NOT_RELEASED"],
    ],
    [
      "plans nothing once it is reported",
      { record: running({ ...over, finishedAtMs: START_MS }), livePods: [live("driver")] },
      [],
    ],
  ])("%s", (_title, world, expected) => {
    expect(plan(world)).toEqual(expected);
  });
});

describe("wakeAtMs", () => {
  it("looks again in time for each limit", () => {
    const waiting = { state: "waiting", id: "r-1", because: undefined } as const;
    expect(wakeAtMs(snapshot({ reservation: waiting }), POLICY)).toBe(START_MS + 86_400_000);
    expect(wakeAtMs(snapshot({ record: running() }), POLICY)).toBe(START_MS + 1 + 900_000);
    const unlimited = running({ spec: spec({ timeoutMs: 0 }) });
    expect(wakeAtMs(snapshot({ record: unlimited }), POLICY)).toBeUndefined();
    expect(wakeAtMs(snapshot({ record: running({ verdict }) }), POLICY)).toBe(START_MS + POLICY.lookAgainMs);
    expect(wakeAtMs(snapshot({ record: running({ finishedAtMs: 1 }) }), POLICY)).toBeUndefined();
  });
});
