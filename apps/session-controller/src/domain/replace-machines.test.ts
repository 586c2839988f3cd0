import type { CrowdedComponent } from "@muster/resources";
import { describe, expect, it } from "vitest";
import { makeLivePod, makePodSeen, POLICY, makeProvisioning, makeSnapshot, START_MS } from "../../test/samples.ts";
import { planSession, computeWakeAtMs } from "./plan-session.ts";
import type { ComponentStatus, SessionRecord } from "./session.ts";
import type { Rejection } from "@muster/health";
import type { ReplacementSeen, Snapshot } from "./snapshot.ts";
import type { PodSeen } from "./summarise-components.ts";
import { transitionRecord } from "./transition-record.ts";

const NODE = "node-server-0";
const GONE = new Map([[NODE, "gone"]] as const);
const CORDONED: ReplacementSeen = {
  state: "refused",
  fault: { code: "pool_capacity", pool: "workers", requested: 1, capacity: 0, cordoned: ["node-8"] },
};
const WAITING: ReplacementSeen = { state: "waiting", id: "r-2", because: undefined };
const UNSTARTED = { health: "NOT_READY", podIp: "", node: "", exitCode: undefined } as const;

/** The node had no room for the pod. */
const REJECTED = { ...UNSTARTED, node: NODE, health: "FAILED", reason: "OutOfcpu", message: "needs 2 cpu" } as const;
const rejectedOn = (node: string, untilMs: number): readonly Rejection[] => [
  { component: "server-0", node, podUid: "uid-1", text: "OutOfcpu: needs 2 cpu", untilMs },
];
const REJECTIONS = rejectedOn(NODE, START_MS + 30_000);

const granted = (node: string): ReplacementSeen => ({
  state: "granted",
  id: "r-2",
  machines: [{ component: "server-0", pool: "workers", node }],
});
const replacements = (answer: ReplacementSeen) => new Map([["server-0", answer]]);

/** The session after its server lost its machine. */
function losing(more: Partial<ComponentStatus> = {}): SessionRecord {
  const base = makeProvisioning([]);
  const lost = {
    node: "",
    lostAtMs: START_MS,
    lostNode: NODE,
    message: `waits for another machine: node ${NODE} is gone`,
  };
  return {
    ...base,
    components: base.components.map((component) =>
      component.name === "server-0" ? { ...component, ...lost, ...more } : component,
    ),
  };
}

/** The changes of the server's status in a pass, and the other steps, a line each. */
function pass(more: Partial<Snapshot>): { server: Partial<ComponentStatus>; steps: string[] } {
  const world = makeSnapshot({ livePods: [], nodesLost: GONE, record: makeProvisioning([]), ...more });
  const steps = planSession(world, POLICY);
  const noted = steps
    .flatMap((step) => (step.kind === "note-components" ? [step] : []))
    .reduce(transitionRecord, world.record);
  const server = noted.components.find(({ name }) => name === "server-0");
  const lines = steps.flatMap((step): string[] => {
    switch (step.kind) {
      case "note-components":
      case "explain-wait":
        return [];
      case "conclude":
        return [`${step.verdict.kind} ${step.verdict.reason}: ${step.verdict.description}`];
      case "create-pod":
        return [`create ${step.component.name} on ${step.node}`];
      case "delete-pod":
        return [`delete ${step.pod}${step.force ? " by force" : ""}: ${step.because}`];
      default:
        return [step.kind];
    }
  });
  return { server: { node: server?.node ?? "", lostAtMs: server?.lostAtMs ?? 0 }, steps: lines };
}

const KEPT = { node: NODE, lostAtMs: 0 };
const LOST = { node: "", lostAtMs: START_MS };

it("reserves the replacement in the pool that the component was granted", () => {
  const record = losing({ pool: "a100" });
  const steps = planSession(makeSnapshot({ record, livePods: [], nodesLost: GONE }), POLICY);
  expect(steps).toContainEqual({
    kind: "reserve-replacement",
    component: "server-0",
    pool: "a100",
    because: "machine-lost",
  });
});

it("reserves the replacement elsewhere than on nodes that have recently rejected the component's pods", () => {
  const other = { component: "driver", node: "node-9", podUid: "uid-2", text: "OutOfcpu", untilMs: START_MS };
  const rejections = [...rejectedOn(NODE, START_MS + 1), other];
  const steps = planSession(makeSnapshot({ record: losing(), livePods: [], nodesLost: GONE, rejections }), POLICY);
  expect(steps).toContainEqual(expect.objectContaining({ kind: "reserve-replacement", rejectedBy: [NODE] }));
});

describe("a lost machine", () => {
  const created = makeProvisioning(["server-0"]);
  it.each<[string, Partial<Snapshot>, Partial<ComponentStatus>]>([
    ["before a pod was made is lost to its component", {}, LOST],
    ["is kept while the API server has not listed the pods", { livePods: undefined }, KEPT],
    [
      "is kept where a pod exists that no record has",
      { livePods: [makeLivePod(makePodSeen("server-0", UNSTARTED))] },
      KEPT,
    ],
    [
      "before the pod is placed is lost",
      { record: created, livePods: [makeLivePod(makePodSeen("server-0", UNSTARTED), { containers: [] })] },
      LOST,
    ],
    [
      "after the pod was placed, and before a container started, is lost",
      {
        record: created,
        livePods: [makeLivePod(makePodSeen("server-0", { ...UNSTARTED, node: NODE }), { containers: [] })],
      },
      LOST,
    ],
    [
      "with a pod that Kubernetes has removed since, and that never had an address, is lost",
      { record: created, pods: [makePodSeen("server-0", { ...UNSTARTED, health: "FAILED", deleted: true })] },
      LOST,
    ],
    [
      "with a pod that had an address is kept: what it did is not known",
      { record: created, pods: [makePodSeen("server-0", { health: "FAILED", deleted: true })] },
      KEPT,
    ],
    [
      "with a started container is kept",
      { record: created, livePods: [makeLivePod(makePodSeen("server-0", UNSTARTED), { containers: ["main"] })] },
      KEPT,
    ],
    [
      "that has rejected the pod is lost",
      {
        record: created,
        ...{ nodesLost: new Map(), rejections: REJECTIONS },
        pods: [makePodSeen("server-0", REJECTED)],
        livePods: [makeLivePod(makePodSeen("server-0", REJECTED), { containers: [] })],
      },
      LOST,
    ],
    [
      "that has rejected the pod is kept until a list shows that no container has started",
      {
        record: created,
        ...{ nodesLost: new Map(), rejections: REJECTIONS },
        ...{ pods: [makePodSeen("server-0", REJECTED)], livePods: undefined },
      },
      KEPT,
    ],
    ["with a pod that was neither published nor listed is kept", { record: created, livePods: [] }, KEPT],
  ])("%s", (_title, more, server) => {
    expect(pass(more).server).toEqual(server);
  });
});

it("does not end the session when a node rejects a pod, and names the reason while the component waits", () => {
  const rejected = makePodSeen("server-0", REJECTED);
  const record = makeProvisioning(["server-0"]);
  const seen = { record, nodesLost: new Map(), rejections: REJECTIONS, pods: [rejected] };
  expect(pass({ ...seen, livePods: undefined }).steps).toEqual([]);
  const steps = planSession(makeSnapshot({ ...seen, livePods: [makeLivePod(rejected, { containers: [] })] }), POLICY);
  const [noted] = steps.flatMap((step) => (step.kind === "note-components" ? [step.components] : []));
  expect(noted?.find(({ name }) => name === "server-0")?.message).toBe(
    `waits for another machine: node ${NODE} rejected the pod (OutOfcpu: needs 2 cpu)`,
  );
});

describe("a component whose machine rejected its pod", () => {
  const usable = { nodesLost: new Map(), nodesBack: new Set([NODE]), replacements: replacements(WAITING) };
  const later = { nowMs: START_MS + 30_000, rejections: REJECTIONS };

  it("returns to this machine after a pause, and keeps its request for another one until its pod has started", () => {
    expect(pass({ record: losing(), ...usable, rejections: REJECTIONS }).steps).toEqual([]);
    expect(pass({ record: losing(), ...usable, ...later }).steps).toEqual(["create server-0 on node-server-0"]);
    const back = losing({ node: NODE, podUid: "uid-server-0" });
    const placed = makePodSeen("server-0", { ...UNSTARTED, node: NODE });
    const listed = (pod: PodSeen) => ({ pods: [pod], livePods: [makeLivePod(pod, { containers: [] })] });
    expect(pass({ record: back, ...usable, ...later, ...listed(placed) }).steps).toEqual([]);
    const started = losing({ node: NODE, podUid: "uid-server-0", podIp: "10.0.0.1" });
    const running = listed({ ...placed, podIp: "10.0.0.1" });
    expect(pass({ record: started, ...usable, ...later, ...running }).steps).toEqual(["release-replacement"]);
  });

  it("waits for another one from the first rejection on", () => {
    const rejected = makePodSeen("server-0", REJECTED);
    const again = { record: losing({ node: NODE, podUid: "uid-server-0" }), nowMs: START_MS + 60_000 };
    const seen = { pods: [rejected], livePods: [makeLivePod(rejected, { containers: [] })] };
    const rejections = rejectedOn(NODE, START_MS + 90_000);
    expect(pass({ ...again, ...usable, ...seen, rejections }).server).toEqual(LOST);
    const [end = ""] = pass({ record: losing(), ...usable, rejections, nowMs: START_MS + 120_000 - 30_000 }).steps;
    expect(end).toBe("create server-0 on node-server-0");
    const late = rejectedOn(NODE, START_MS + 150_000);
    const [line = ""] = pass({ record: losing(), ...usable, rejections: late, nowMs: START_MS + 120_000 }).steps;
    expect(line).toMatch(/^ERROR MACHINE_LOST/);
  });

  it("gives up a replacement that rejected its pod, too", () => {
    const both = [...REJECTIONS, ...rejectedOn("node-9", START_MS + 30_000)];
    const answered = { ...usable, replacements: replacements(granted("node-9")), rejections: both };
    expect(pass({ record: losing(), ...answered }).steps).toEqual(["release-replacement"]);
  });
});

describe("a component that lost its machine before it started", () => {
  const live = makeLivePod(makePodSeen("server-0", UNSTARTED), { containers: [] });
  const withPod = losing({ podUid: "uid-server-0" });
  it.each<[string, Partial<Snapshot>, string[]]>([
    ["asks for another one", { record: losing() }, ["reserve-replacement"]],
    ["waits for it", { record: losing(), replacements: replacements(WAITING) }, []],
    [
      "has its pod deleted meanwhile",
      { record: withPod, livePods: [live], replacements: replacements(WAITING) },
      ["delete bench-server-0: machine-lost"],
    ],
    [
      "has its pod removed by force once its time is over and its node is gone",
      {
        record: withPod,
        livePods: [{ ...live, deleting: true, overdueOn: { state: "gone" } }],
        replacements: replacements(WAITING),
      },
      ["delete bench-server-0 by force: node-gone"],
    ],
    [
      "waits for its pod while the node may still end it",
      {
        record: withPod,
        livePods: [{ ...live, deleting: true, overdueOn: { state: "not-ready", sinceMs: START_MS } }],
        replacements: replacements(granted("node-9")),
      },
      [],
    ],
    [
      "gives up a replacement that is lost, too, once no pod is left",
      {
        record: losing(),
        nodesLost: new Map([["node-9", "not-ready"]]),
        replacements: replacements(granted("node-9")),
      },
      ["release-replacement"],
    ],
    [
      "ends the session when no other machine can be had",
      {
        record: losing(),
        replacements: replacements({ state: "refused", fault: { code: "pool_unknown", pool: "workers" } }),
      },
      ["ERROR MACHINE_LOST"],
    ],
    [
      "waits while a cordon keeps another machine from it, and requests one again",
      { record: losing(), replacements: replacements(CORDONED) },
      ["reserve-replacement"],
    ],
    [
      "ends the session when the cordon lasts for too long",
      { record: losing(), nowMs: START_MS + 120_000, replacements: replacements(CORDONED) },
      ["ERROR MACHINE_LOST"],
    ],
    [
      "ends the session when none was granted in time",
      { record: losing(), nowMs: START_MS + 120_000, replacements: replacements(WAITING) },
      ["ERROR MACHINE_LOST"],
    ],
    [
      "blames the infrastructure when the ledger was away for as long",
      { record: losing(), nowMs: START_MS + 120_000, trouble: "the ledger is not available" },
      ["INTERNAL_ERROR "],
    ],
  ])("%s", (_title, more, steps) => {
    const planned = pass(more).steps;
    expect(planned.map((line) => line.replace(/^((?:INTERNAL_)?ERROR [A-Z_]*):.*/, "$1"))).toEqual(steps);
    for (const line of planned) if (line.includes("ERROR")) expect(line).toContain(NODE);
  });

  it("gets its pod on the granted replacement", () => {
    const { server, steps } = pass({ record: losing(), replacements: replacements(granted("node-9")) });
    expect(server).toEqual({ node: "node-9", lostAtMs: START_MS });
    expect(steps).toEqual(["create server-0 on node-9"]);
  });

  it("returns to its own machine once that is usable again, and releases the replacement", () => {
    const back = { nodesLost: new Map(), nodesBack: new Set([NODE]), replacements: replacements(WAITING) };
    const { server, steps } = pass({ record: losing(), ...back });
    expect(server).toEqual({ node: NODE, lostAtMs: START_MS });
    expect(steps).toEqual(["create server-0 on node-server-0"]);
    expect(pass({ record: losing({ node: NODE }), ...back }).steps).toContain("release-replacement");
    // Another executor requested the replacement; this executor does not know the answer.
    const unknown = { ...back, replacements: new Map() };
    expect(pass({ record: losing({ node: NODE }), ...unknown }).steps).toContain("release-replacement");
    const released = { ...back, replacements: replacements({ state: "released" }) };
    expect(pass({ record: losing({ node: NODE }), ...released }).steps).not.toContain("release-replacement");
  });

  it("keeps waiting while the state of its own machine is unknown", () => {
    expect(pass({ record: losing(), nodesLost: new Map(), replacements: replacements(WAITING) }).steps).toEqual([]);
  });

  it("remembers its own machine when it loses the replacement, and releases that", () => {
    const record = losing({ node: "node-9" });
    const lost = { record, nodesLost: new Map([["node-9", "gone"]] as const) };
    const steps = planSession(makeSnapshot({ livePods: [], ...lost }), POLICY);
    const noted = steps.flatMap((step) => (step.kind === "note-components" ? step.components : []));
    expect(noted.find(({ name }) => name === "server-0")).toMatchObject({ node: "", lostNode: NODE });
    const back = { nodesLost: new Map(), nodesBack: new Set(["node-9"]), replacements: replacements(WAITING) };
    expect(pass({ record: losing(), ...back }).steps).toEqual([]);
  });

  it("uses a granted replacement rather than its own machine", () => {
    const both = { nodesLost: new Map(), nodesBack: new Set([NODE]), replacements: replacements(granted("node-9")) };
    expect(pass({ record: losing(), ...both }).server).toMatchObject({ node: "node-9" });
  });

  it("keeps its machine if its pod has started after all", () => {
    const started = makeLivePod(makePodSeen("server-0"), { containers: ["main"] });
    const { server } = pass({ record: withPod, livePods: [started], replacements: replacements(WAITING) });
    expect(server).toEqual({ node: NODE, lostAtMs: START_MS });
  });

  it("gets a pass soon while its pod is in deletion, and again when its wait is over", () => {
    const at = (record: SessionRecord, nowMs = START_MS + 5) =>
      computeWakeAtMs(makeSnapshot({ record, nowMs }), POLICY);
    expect(at(withPod)).toBe(START_MS + 5 + POLICY.lookAgainMs);
    expect(at(losing())).toBe(START_MS + POLICY.replacementWaitMs);
  });
});

it("keeps the replacement if an earlier executor's pod runs there, though its own machine is back", () => {
  const back = losing({ node: NODE, message: "" });
  const created = { kind: "pod-created", component: "server-0", uid: "uid-server-0", node: "node-9" } as const;
  const record = transitionRecord(back, created);
  const live = makeLivePod(makePodSeen("server-0", { node: "node-9" }), { containers: ["main"] });
  const { server, steps } = pass({
    record,
    livePods: [live],
    nodesLost: new Map(),
    nodesBack: new Set([NODE]),
    replacements: replacements(granted("node-9")),
  });
  expect(server.node).toBe("node-9");
  expect(steps).not.toContain("release-replacement");
});

describe("a shared component", () => {
  const crowding = (node: string, isLost: boolean): CrowdedComponent => ({
    ...{ component: "server-0", node, sinceMs: START_MS, isLost },
    resources: [{ resource: "cpu", requested: 500, free: 100 }],
    foreign: { pods: 1, examples: ["shop/web"] },
  });
  const created = makeProvisioning(["server-0"]);
  const unplaced = makeLivePod(makePodSeen("server-0", UNSTARTED), { containers: [] });
  const seenOn = (node: string) => [makePodSeen("server-0", { ...UNSTARTED, node })];
  const unschedulable = new Map([[NODE, "unschedulable"]] as const);
  const usable = { nodesLost: new Map(), record: created, livePods: [unplaced] };

  it.each<[string, Partial<Snapshot>, Partial<ComponentStatus>]>([
    ["waits at first while foreign pods take its room", { crowded: [crowding(NODE, false)] }, KEPT],
    ["loses its part when they have taken it for too long", { crowded: [crowding(NODE, true)] }, LOST],
    ["keeps its part when another component is crowded out", { crowded: [crowding("node-9", true)] }, KEPT],
    ["loses a part where no pod can start", { nodesUnschedulable: unschedulable }, LOST],
    ["keeps it where its pod is placed", { nodesUnschedulable: unschedulable, pods: seenOn(NODE) }, KEPT],
  ])("%s", (_title, more, server) => {
    expect(pass({ ...usable, ...more }).server).toEqual(server);
  });

  it("names the foreign pods while it waits for another part", () => {
    const steps = planSession(makeSnapshot({ ...usable, crowded: [crowding(NODE, true)] }), POLICY);
    const [noted] = steps.flatMap((step) => (step.kind === "note-components" ? [step.components] : []));
    expect(noted?.find(({ name }) => name === "server-0")?.message).toMatch(/^waits for another machine: .*shop\/web$/);
  });

  it("returns to its own part only once that has room, and releases a replacement that is crowded, too", () => {
    const lost = { record: losing(), nodesLost: new Map(), nodesBack: new Set([NODE]) };
    const waiting = { ...lost, replacements: replacements(WAITING) };
    expect(pass({ ...waiting, crowded: [crowding(NODE, false)] }).server).toMatchObject({ node: "" });
    expect(pass(waiting).server).toMatchObject({ node: NODE });
    const crowded = [crowding(NODE, true), crowding("node-9", true)];
    const { server, steps } = pass({ ...lost, replacements: replacements(granted("node-9")), crowded });
    expect(server).toMatchObject({ node: "" });
    expect(steps).toEqual(["release-replacement"]);
  });
});
