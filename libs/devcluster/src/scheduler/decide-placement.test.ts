import type { V1Node, V1Pod, V1PodSpec } from "@kubernetes/client-node";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { awaitsPlacement, decidePlacement } from "./decide-placement.ts";

describe("decidePlacement", () => {
  it("binds to the node with the fewest pods, then to the first by name", () => {
    const nodes = [node("b"), node("a"), node("c")];
    expect(decidePlacement(pod("new"), nodes, [])).toEqual({ do: "bind", node: "a", because: "fits" });
    const placed = [pod("one", { nodeName: "a" }), pod("two", { nodeName: "b" })];
    expect(decidePlacement(pod("new"), nodes, placed)).toMatchObject({ do: "bind", node: "c" });
  });

  it("says when there is no node at all", () => {
    expect(decidePlacement(pod("new"), [], [])).toMatchObject({
      because: "no-nodes",
      message: "no nodes available to schedule pods",
    });
  });

  it.each<[string, Partial<V1Node>, Partial<V1PodSpec>, string]>([
    ["a cordoned node", { spec: { unschedulable: true } }, {}, "1 node(s) were unschedulable"],
    [
      "a taint that is not tolerated",
      { spec: { taints: [{ key: "gpu", value: "yes", effect: "NoSchedule" }] } },
      { tolerations: [{ key: "gpu", value: "no" }] },
      "1 node(s) had untolerated taint {gpu: yes}",
    ],
    ["a node that is not ready", { status: { conditions: [] } }, {}, "1 node(s) were not ready"],
    ["another pool", {}, { nodeSelector: { pool: "b" } }, "1 node(s) didn't match Pod's node affinity/selector"],
    ["too little cpu", {}, requests({ cpu: "4001m" }), "1 Insufficient cpu"],
    ["too little memory", {}, requests({ memory: "9Gi" }), "1 Insufficient memory"],
    ["a resource that the node lacks", {}, requests({ "nvidia.com/gpu": "1" }), "1 Insufficient nvidia.com/gpu"],
  ])("waits because of %s", (_title, nodePart, podPart, reason) => {
    const placement = decidePlacement(pod("new", podPart), [node("a", nodePart)], []);
    expect(placement).toMatchObject({
      do: "wait",
      because: "no-fit",
      message: `0/1 nodes are available: ${reason}.`,
    });
  });

  it("counts each reason over all nodes, in a stable order", () => {
    const nodes = [
      node("a", { spec: { unschedulable: true } }),
      node("b", { metadata: { name: "b", labels: { pool: "other" } } }),
      node("c", { metadata: { name: "c", labels: { pool: "other" } } }),
    ];
    expect(decidePlacement(pod("new", { nodeSelector: { pool: "x" } }), nodes, [])).toMatchObject({
      message:
        "0/3 nodes are available: 1 node(s) were unschedulable, 2 node(s) didn't match Pod's node affinity/selector.",
      reasons: new Map([
        ["node(s) were unschedulable", 1],
        ["node(s) didn't match Pod's node affinity/selector", 2],
      ]),
    });
  });

  it.each<[string, V1PodSpec["tolerations"]]>([
    ["the same value", [{ key: "gpu", operator: "Equal", value: "yes", effect: "NoSchedule" }]],
    ["the key alone", [{ key: "gpu", operator: "Exists" }]],
    ["everything", [{ operator: "Exists" }]],
  ])("accepts a taint when the pod tolerates %s", (_title, tolerations = []) => {
    const tainted = node("a", { spec: { taints: [{ key: "gpu", value: "yes", effect: "NoSchedule" }] } });
    expect(decidePlacement(pod("new", { tolerations }), [tainted], []).do).toBe("bind");
  });

  it("ignores taints that only prefer", () => {
    const tainted = node("a", { spec: { taints: [{ key: "gpu", effect: "PreferNoSchedule" }] } });
    expect(decidePlacement(pod("new"), [tainted], []).do).toBe("bind");
  });

  it("keeps pods apart in both directions: by the new pod's terms and by those of pods already there", () => {
    const apart = antiAffinity({ app: "web" });
    const web = pod("web-0", { nodeName: "a", ...apart }, { app: "web" });
    expect(decidePlacement(pod("web-1", apart, { app: "web" }), [node("a")], [web])).toMatchObject({
      message: "0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules.",
    });
    expect(decidePlacement(pod("web-2", {}, { app: "web" }), [node("a")], [web])).toMatchObject({
      message: "0/1 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules.",
    });
    expect(decidePlacement(pod("web-1", apart, { app: "web" }), [node("a"), node("b")], [web])).toMatchObject({
      node: "b",
    });
    expect(decidePlacement(pod("db", {}, { app: "db" }), [node("a")], [web]).do).toBe("bind");
  });

  it("counts a limit without a request, init containers at their largest, and not the pods that have ended", () => {
    const spec: Partial<V1PodSpec> = {
      containers: [{ name: "main", resources: { limits: { cpu: "1" } } }],
      initContainers: [{ name: "init", resources: { requests: { cpu: "3" } } }],
    };
    const here = pod("here", { ...spec, nodeName: "a" });
    expect(decidePlacement(pod("new", requests({ cpu: "1" })), [node("a")], [here]).do).toBe("bind");
    expect(decidePlacement(pod("new", requests({ cpu: "2" })), [node("a")], [here]).do).toBe("wait");
    const ended = { ...here, status: { phase: "Succeeded" } };
    expect(decidePlacement(pod("new", requests({ cpu: "2" })), [node("a")], [ended]).do).toBe("bind");
  });

  it("never exceeds a node, never breaks a selector, and does not depend on the order of nodes and pods", () => {
    fc.assert(
      fc.property(fc.array(wish(), { maxLength: 30 }), fc.array(fc.boolean(), { maxLength: 5 }), (wishes, cordons) => {
        const nodes = cordons.map((unschedulable, index) =>
          node(`n${index}`, {
            spec: { unschedulable },
            metadata: { name: `n${index}`, labels: { pool: index % 2 === 0 ? "even" : "odd" } },
          }),
        );
        const placed: V1Pod[] = [];
        for (const [index, each] of wishes.entries()) {
          const wanted = pod(`p${index}`, { ...requests({ cpu: `${each.milliCpu}m` }), nodeSelector: each.selector });
          const placement = decidePlacement(wanted, nodes, placed);
          expect(decidePlacement(wanted, nodes.toReversed(), placed.toReversed())).toEqual(placement);
          if (placement.do === "wait") continue;
          placed.push({ ...wanted, spec: { containers: [], ...wanted.spec, nodeName: placement.node } });
        }
        for (const [index, each] of nodes.entries()) {
          const here = placed.filter((other) => other.spec?.nodeName === each.metadata?.name);
          const used = here.map((other) => parseInt(other.spec?.containers[0]?.resources?.requests?.["cpu"] ?? "0"));
          expect(used.reduce((a, b) => a + b, 0)).toBeLessThanOrEqual(4000);
          if (cordons[index] === true) expect(here).toEqual([]);
          for (const other of here) {
            expect([undefined, each.metadata?.labels?.["pool"]]).toContain(other.spec?.nodeSelector?.["pool"]);
          }
        }
      }),
    );
  });
});

describe("awaitsPlacement", () => {
  it.each<[string, Partial<V1Pod>, boolean]>([
    ["a new pod", {}, true],
    ["a pod that names the default scheduler", { spec: { containers: [], schedulerName: "default-scheduler" } }, true],
    ["a pod of another scheduler", { spec: { containers: [], schedulerName: "mine" } }, false],
    ["a bound pod", { spec: { containers: [], nodeName: "a" } }, false],
    ["a pod that is going away", { metadata: { deletionTimestamp: new Date(0) } }, false],
    ["a pod that has failed", { status: { phase: "Failed" } }, false],
    ["a gated pod", { spec: { containers: [], schedulingGates: [{ name: "wait" }] } }, false],
  ])("judges %s", (_title, part, expected) => {
    expect(awaitsPlacement({ ...pod("p"), ...part })).toBe(expected);
  });
});

function wish(): fc.Arbitrary<{ milliCpu: number; selector: Record<string, string> }> {
  const selector = fc.constantFrom<Record<string, string>[]>({}, { pool: "even" }, { pool: "odd" });
  return fc.record({ milliCpu: fc.integer({ min: 0, max: 2500 }), selector });
}

function node(name: string, part: Partial<V1Node> = {}): V1Node {
  return {
    metadata: { name, labels: { pool: "a" } },
    spec: {},
    status: {
      allocatable: { cpu: "4", memory: "8Gi", pods: "110" },
      conditions: [{ type: "Ready", status: "True" }],
    },
    ...part,
  };
}

function pod(name: string, spec: Partial<V1PodSpec> = {}, labels: Record<string, string> = {}): V1Pod {
  return {
    metadata: { name, namespace: "default", uid: name, labels },
    spec: { containers: [{ name: "main" }], ...spec },
  };
}

function requests(resources: Record<string, string>): Partial<V1PodSpec> {
  return { containers: [{ name: "main", resources: { requests: resources } }] };
}

function antiAffinity(labels: Record<string, string>): Partial<V1PodSpec> {
  const term = { topologyKey: "kubernetes.io/hostname", labelSelector: { matchLabels: labels } };
  return { affinity: { podAntiAffinity: { requiredDuringSchedulingIgnoredDuringExecution: [term] } } };
}
