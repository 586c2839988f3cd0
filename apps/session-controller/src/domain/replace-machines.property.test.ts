import fc from "fast-check";
import { expect, it } from "vitest";
import {
  makeComponent,
  makeLivePod,
  makePodSeen,
  POLICY,
  makeProvisioning,
  makeSnapshot,
  makeSpec,
  START_MS,
} from "../../test/samples.ts";
import { describeLoss } from "./describe-loss.ts";
import { planSession } from "./plan-session.ts";
import { rememberRejections, type Rejection } from "@muster/health";
import { listRejectedPods } from "./rejections.ts";
import type { SessionStep } from "./session-steps.ts";
import { isReplacing, type SessionRecord } from "./session.ts";
import type { LivePod, ReplacementSeen, Snapshot } from "./snapshot.ts";
import { transitionRecord } from "./transition-record.ts";

const OWN = "node-server-0";
const NODES = [OWN, "node-8", "node-9"];
const HARMS = ["none", "gone", "unschedulable", "crowded", "crowded out", "rejecting"] as const;
const TEMPLATE = { spec: { containers: [{ name: "main", resources: { requests: { cpu: 1 } } }] } };

/** A session with a shared server that has not started, and the events of the nodes. */
type World = {
  record: SessionRecord;
  readonly harms: Map<string, (typeof HARMS)[number]>;
  replacement: ReplacementSeen;
  pod: LivePod | undefined;
  made: number;
  nowMs: number;
  rejections: readonly Rejection[];
};

function newWorld(): World {
  const templateJson = JSON.stringify(TEMPLATE);
  const { components } = makeSpec();
  const shared = makeSpec({
    components: components.map((each) =>
      each.name === "server-0" ? makeComponent("server-0", "server", { shared: true, templateJson }) : each,
    ),
  });
  const record = { ...makeProvisioning([]), spec: shared };
  return {
    record,
    harms: new Map(),
    replacement: { state: "unknown" },
    pod: undefined,
    made: 0,
    nowMs: START_MS,
    rejections: [],
  };
}

function observe({ record, harms, replacement, pod, nowMs, rejections }: World): Snapshot {
  const having = (harm: string) => NODES.filter((node) => harms.get(node) === harm);
  return makeSnapshot({
    record,
    nowMs,
    pods: pod === undefined ? [] : [pod.seen],
    rejections,
    livePods: pod === undefined ? [] : [pod],
    nodesLost: new Map(having("gone").map((node) => [node, "gone"])),
    nodesUnschedulable: new Map(having("unschedulable").map((node) => [node, "unschedulable"])),
    nodesBack: new Set(NODES.filter((node) => !["gone", "unschedulable"].includes(harms.get(node) ?? "none"))),
    crowded: [...having("crowded"), ...having("crowded out")].map((node) => ({
      ...{ component: "server-0", node, resources: [], foreign: { pods: 1, examples: [] }, sinceMs: START_MS },
      isLost: harms.get(node) === "crowded out",
    })),
    replacements: new Map([["server-0", replacement]]),
  });
}

function execute(world: World, seen: Snapshot, step: SessionStep): void {
  switch (step.kind) {
    case "reserve-replacement":
      expect(["unknown", "released"]).toContain(world.replacement.state);
      world.replacement = { state: "waiting", id: "r-2", because: undefined };
      return;
    case "release-replacement":
      world.replacement = { state: "released" };
      return;
    case "delete-pod":
      world.pod = undefined;
      return;
    case "create-pod": {
      const { node } = step;
      const machines = world.replacement.state === "granted" ? world.replacement.machines : [];
      expect([OWN, ...machines.map((machine) => machine.node)]).toContain(node);
      expect(describeLoss(seen, { name: "server-0", podUid: "" }, node), `a pod for ${node}`).toBeUndefined();
      expect(world.pod, "a second pod").toBeUndefined();
      world.made += 1;
      const uid = `uid-${world.made}`;
      const unplaced = { uid, health: "NOT_READY", podIp: "", node: "" } as const;
      const rejected = { uid, health: "FAILED", reason: "OutOfcpu", podIp: "", node } as const;
      const isRejected = world.harms.get(node) === "rejecting";
      world.pod = makeLivePod(makePodSeen("server-0", isRejected ? rejected : unplaced), { containers: [] });
      world.record = transitionRecord(world.record, { kind: "pod-created", component: "server-0", uid, node });
      return;
    }
    case "note-components":
    case "explain-wait":
      world.record = transitionRecord(world.record, step);
      return;
    default:
      throw new Error(`no ${step.kind} is expected`);
  }
}

function pass(world: World): readonly SessionStep[] {
  world.nowMs += 1000;
  const seenPods = world.pod === undefined ? [] : [world.pod.seen];
  world.rejections = rememberRejections(world.rejections, listRejectedPods(world.record, seenPods), world.nowMs);
  const seen = observe(world);
  const steps = planSession(seen, POLICY);
  for (const step of steps) execute(world, seen, step);
  return steps;
}

type Happening = { readonly node: string; readonly harm: (typeof HARMS)[number]; readonly grants: boolean };

function happen(world: World, { node, harm, grants }: Happening): void {
  world.harms.set(node, harm);
  if (grants && world.replacement.state === "waiting")
    world.replacement = { state: "granted", id: "r-2", machines: [{ component: "server-0", pool: "workers", node }] };
}

const happenings: fc.Arbitrary<Happening[]> = fc.array(
  fc.record({ node: fc.constantFrom(...NODES), harm: fc.constantFrom(...HARMS), grants: fc.boolean() }),
  { maxLength: 20 },
);

it("a shared component has at most one pod, on a usable part, and settles on one when all nodes are healthy", () => {
  fc.assert(
    fc.property(happenings, (all) => {
      const world = newWorld();
      for (const each of all) {
        happen(world, each);
        pass(world);
      }
      world.harms.clear();
      for (let left = 10; left > 0; left -= 1) {
        world.nowMs += 30_000;
        pass(world);
      }
      expect(pass(world), "it does not come to rest").toEqual([]);
      const server = world.record.components.find(({ name }) => name === "server-0");
      expect(server && isReplacing(server)).toBe(false);
      expect(server?.podUid).toBe(world.pod?.uid);
      expect(NODES).toContain(server?.node);
    }),
  );
});
