import type { V1Node, V1Pod } from "@kubernetes/client-node";
import { describe, expect, it } from "vitest";
import { ClusterState } from "./cluster-state.ts";
import { type SchedulingDeps, runSchedulingPass } from "./scheduling-pass.ts";
import { SchedulingQueue } from "./scheduling-queue.ts";

const FULL = "0/1 nodes are available: 1 Too many pods.";

describe("runSchedulingPass", () => {
  it("counts pods that it has just bound, before the cache shows them", async () => {
    const world = makeWorld({ pods: [pod("a", 1), pod("b", 2)], nodes: [node("n", "1")] });
    await runSchedulingPass(world.deps);
    expect(world.log.sort()).toEqual(["FailedScheduling b", "Scheduled a", "bind a to n", `status b: ${FULL}`]);
  });

  it("places the pod with the higher priority first, then the oldest", async () => {
    const urgent = pod("urgent", 9);
    const spec = { containers: [], priority: 1000 };
    const pods = [pod("young", 8), pod("old", 1), { ...urgent, spec }];
    const world = makeWorld({ pods, nodes: [node("n", "2")] });
    await runSchedulingPass(world.deps);
    expect(world.log.slice(0, 2)).toEqual(["bind urgent to n", "bind old to n"]);
  });

  it("reports why a pod waits again only when the reason changes", async () => {
    const world = makeWorld({ pods: [pod("a", 1)], nodes: [] });
    await runSchedulingPass(world.deps);
    expect(world.log).toEqual(["status a: no nodes available to schedule pods", "FailedScheduling a"]);
    await world.later(60_000);
    expect(world.log).toHaveLength(2);
    world.deps.state.setNode(node("n", "0"));
    await world.later(60_000);
    expect(world.log.at(-2)).toBe(`status a: ${FULL}`);
  });

  it("retries an unschedulable pod only after a change, and after its back-off", async () => {
    const world = makeWorld({ pods: [pod("a", 1)], nodes: [] });
    await runSchedulingPass(world.deps);
    world.deps.state.setNode(node("n", "1"));
    await world.later(1_000);
    expect(world.log).toHaveLength(2);
    world.deps.queue.changed();
    await world.later(0);
    expect(world.log.slice(2)).toEqual(["bind a to n", "Scheduled a"]);
  });

  it("retries a pod that changed meanwhile, and one whose binding failed, after a growing pause", async () => {
    const world = makeWorld({ pods: [pod("a", 1)], nodes: [node("n", "1")], answers: [false, new Error("away")] });
    await runSchedulingPass(world.deps);
    await world.later(999);
    expect(world.log).toEqual(["bind a to n"]);
    await world.later(1);
    expect(world.log).toEqual(["bind a to n", "bind a to n", "error: away"]);
    await world.later(1_999);
    expect(world.log).toHaveLength(3);
    await world.later(1);
    expect(world.log.slice(3)).toEqual(["bind a to n", "Scheduled a"]);
  });

  it("releases the resources of a pod that could not be bound", async () => {
    const world = makeWorld({ pods: [pod("a", 1)], nodes: [node("n", "1")], answers: [false] });
    await runSchedulingPass(world.deps);
    world.deps.queue.set(pod("b", 2), 0);
    await runSchedulingPass(world.deps);
    expect(world.log).toContain("bind b to n");
  });

  it("keeps the resources of a pod that was observed as bound although the answer was lost", async () => {
    const world = makeWorld({ pods: [pod("a", 1)], nodes: [node("n", "1")], answers: [new Error("reset")] });
    const passing = runSchedulingPass(world.deps);
    world.deps.queue.delete("a");
    await passing;
    world.deps.queue.set(pod("b", 2), 0);
    await runSchedulingPass(world.deps);
    expect(world.log).not.toContain("bind b to n");
  });
});

function makeWorld(start: { pods: V1Pod[]; nodes: V1Node[]; answers?: (boolean | Error)[] }): {
  deps: SchedulingDeps;
  log: string[];
  later: (ms: number) => Promise<void>;
} {
  const log: string[] = [];
  const answers = [...(start.answers ?? [])];
  let nowMs = 0;
  const pods = new Map(start.pods.map((each) => [each.metadata?.uid, each]));
  const state = new ClusterState();
  const queue = new SchedulingQueue();
  for (const each of start.nodes) state.setNode(each);
  for (const each of start.pods) queue.set(each, nowMs);
  const nameOf = (each: V1Pod): string => each.metadata?.name ?? "";
  const deps: SchedulingDeps = {
    now: () => nowMs,
    state,
    queue,
    bind: (each, to) => {
      log.push(`bind ${nameOf(each)} to ${to}`);
      const answer = answers.shift() ?? true;
      return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer);
    },
    saveCondition: (each, condition) => {
      log.push(`status ${nameOf(each)}: ${condition.message ?? ""}`);
      const changed = { ...each, status: { conditions: [condition] } };
      pods.set(each.metadata?.uid, changed);
      queue.set(changed, nowMs);
      return Promise.resolve(true);
    },
    record: (each, event) => {
      log.push(`${event.reason} ${nameOf(each)}`);
      return Promise.resolve();
    },
    onError: (error) => log.push(`error: ${error instanceof Error ? error.message : ""}`),
  };
  return {
    log,
    deps,
    later: async (ms) => {
      nowMs += ms;
      await runSchedulingPass(deps);
    },
  };
}

function pod(name: string, createdMs: number): V1Pod {
  return {
    metadata: { name, namespace: "default", uid: name, creationTimestamp: new Date(createdMs) },
    spec: { containers: [{ name: "main" }] },
  };
}

function node(name: string, pods: string): V1Node {
  return { metadata: { name }, status: { allocatable: { pods }, conditions: [{ type: "Ready", status: "True" }] } };
}
