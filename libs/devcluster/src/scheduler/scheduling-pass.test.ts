import type { V1Node, V1Pod } from "@kubernetes/client-node";
import { describe, expect, it } from "vitest";
import { type SchedulingDeps, schedulingPass } from "./scheduling-pass.ts";

describe("schedulingPass", () => {
  it("counts what it has just bound, before the cache shows it", async () => {
    const world = makeWorld({ pods: [pod("a", 1), pod("b", 2)], nodes: [node("n", "1")] });
    const pass = schedulingPass(world.deps);
    await pass();
    await pass();
    expect(world.log).toEqual([
      "bind a to n",
      "Scheduled a",
      "status b: 0/1 nodes are available: 1 Too many pods.",
      "FailedScheduling b",
    ]);
  });

  it("places the oldest pod first", async () => {
    const world = makeWorld({ pods: [pod("young", 9), pod("old", 1)], nodes: [node("n", "1")] });
    await schedulingPass(world.deps)();
    expect(world.log[0]).toBe("bind old to n");
  });

  it("says again why a pod waits only when the reason changes", async () => {
    const world = makeWorld({ pods: [pod("a", 1)], nodes: [] });
    const pass = schedulingPass(world.deps);
    await pass();
    await pass();
    expect(world.log).toEqual(["status a: no nodes available to schedule pods", "FailedScheduling a"]);
    world.nodes.push(node("n", "0"));
    await pass();
    expect(world.log.at(-2)).toBe("status a: 0/1 nodes are available: 1 Too many pods.");
  });

  it("tries a pod again that changed under its hands", async () => {
    const world = makeWorld({ pods: [pod("a", 1)], nodes: [node("n", "1")], answers: [false] });
    const pass = schedulingPass(world.deps);
    await pass();
    await pass();
    expect(world.log).toEqual(["bind a to n", "bind a to n", "Scheduled a"]);
  });
});

function makeWorld(start: { pods: V1Pod[]; nodes: V1Node[]; answers?: boolean[] }): {
  deps: SchedulingDeps;
  nodes: V1Node[];
  log: string[];
} {
  const log: string[] = [];
  const answers = [...(start.answers ?? [])];
  const note = (line: string): Promise<boolean> => {
    log.push(line);
    return Promise.resolve(answers.shift() ?? true);
  };
  const nameOf = (each: V1Pod): string => each.metadata?.name ?? "";
  return {
    log,
    nodes: start.nodes,
    deps: {
      now: () => 0,
      pods: () => start.pods,
      nodes: () => start.nodes,
      bind: (each, to) => note(`bind ${nameOf(each)} to ${to}`),
      saveStatus: (each) => note(`status ${nameOf(each)}: ${each.status?.conditions?.[0]?.message ?? ""}`),
      record: async (each, event) => {
        await note(`${event.reason} ${nameOf(each)}`);
      },
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
