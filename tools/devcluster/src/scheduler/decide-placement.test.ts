import type { V1Node, V1Pod, V1PodAffinityTerm, V1PodSpec } from "@kubernetes/client-node";
import fc from "fast-check";
import { matchesNodeTerm } from "@muster/resources";
import { describe, expect, it } from "vitest";
import { ClusterState } from "./cluster-state.ts";
import { isAwaitingPlacement, decidePlacement, type Placement } from "./decide-placement.ts";
import { matchesSelector } from "./match-labels.ts";

describe("decidePlacement", () => {
  it("binds to the node with the fewest pods, then to the first by name", () => {
    const nodes = [node("b"), node("a"), node("c")];
    expect(place(pod("new"), nodes, [])).toEqual({ kind: "bind", node: "a", because: "fits" });
    const placed = [pod("one", { nodeName: "a" }), pod("two", { nodeName: "b" })];
    expect(place(pod("new"), nodes, placed)).toMatchObject({ kind: "bind", node: "c" });
  });

  it("reports that the cluster has no node", () => {
    expect(place(pod("new"), [], [])).toMatchObject({
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
    [
      "a node that is not ready",
      { status: { conditions: [] } },
      {},
      "1 node(s) had untolerated taint {node.kubernetes.io/not-ready: }",
    ],
    ["another pool", {}, { nodeSelector: { pool: "b" } }, "1 node(s) didn't match Pod's node affinity/selector"],
    ["too little cpu", {}, requests({ cpu: "4001m" }), "1 Insufficient cpu"],
    ["too little memory", {}, requests({ memory: "9Gi" }), "1 Insufficient memory"],
    ["a resource that the node lacks", {}, requests({ "nvidia.com/gpu": "1" }), "1 Insufficient nvidia.com/gpu"],
  ])("waits because of %s", (_title, nodePart, podPart, reason) => {
    const placement = place(pod("new", podPart), [node("a", nodePart)], []);
    expect(placement).toMatchObject({
      kind: "wait",
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
    expect(place(pod("new", { nodeSelector: { pool: "x" } }), nodes, [])).toMatchObject({
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
    expect(place(pod("new", { tolerations }), [tainted], []).kind).toBe("bind");
  });

  it("ignores taints with the effect PreferNoSchedule", () => {
    const tainted = node("a", { spec: { taints: [{ key: "gpu", effect: "PreferNoSchedule" }] } });
    expect(place(pod("new"), [tainted], []).kind).toBe("bind");
  });

  it("keeps pods apart in both directions: by the terms of the new pod and of existing pods", () => {
    const apart = antiAffinity({ app: "web" });
    const web = pod("web-0", { nodeName: "a", ...apart }, { app: "web" });
    expect(place(pod("web-1", apart, { app: "web" }), [node("a")], [web])).toMatchObject({
      message: "0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules.",
    });
    expect(place(pod("web-2", {}, { app: "web" }), [node("a")], [web])).toMatchObject({
      message: "0/1 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules.",
    });
    expect(place(pod("web-1", apart, { app: "web" }), [node("a"), node("b")], [web])).toMatchObject({
      node: "b",
    });
    expect(place(pod("db", {}, { app: "db" }), [node("a")], [web]).kind).toBe("bind");
  });

  it("counts a limit without a request, init containers at their largest, and not the pods that have ended", () => {
    const spec: Partial<V1PodSpec> = {
      containers: [{ name: "main", resources: { limits: { cpu: "1" } } }],
      initContainers: [{ name: "init", resources: { requests: { cpu: "3" } } }],
    };
    const here = pod("here", { ...spec, nodeName: "a" });
    expect(place(pod("new", requests({ cpu: "1" })), [node("a")], [here]).kind).toBe("bind");
    expect(place(pod("new", requests({ cpu: "2" })), [node("a")], [here]).kind).toBe("wait");
    const ended = { ...here, status: { phase: "Succeeded" } };
    expect(place(pod("new", requests({ cpu: "2" })), [node("a")], [ended]).kind).toBe("bind");
  });

  it.each<[string, Partial<V1PodSpec>, number]>([
    [
      "a sidecar beside the containers",
      {
        containers: [{ name: "main", resources: { requests: { cpu: "1" } } }],
        initContainers: [{ name: "side", restartPolicy: "Always", resources: { requests: { cpu: "1" } } }],
      },
      2,
    ],
    [
      "an init container beside the sidecars that started before it, and not those after it",
      {
        initContainers: [
          { name: "first", restartPolicy: "Always", resources: { requests: { cpu: "1" } } },
          { name: "init", resources: { requests: { cpu: "2" } } },
          { name: "second", restartPolicy: "Always", resources: { requests: { cpu: "1" } } },
        ],
      },
      3,
    ],
    ["the overhead", { overhead: { cpu: "3" } }, 3],
  ])("counts %s", (_title, spec, cpu) => {
    const fits = node("a", { status: { ...node("a").status, allocatable: { cpu: `${cpu}` } } });
    const lacks = node("a", { status: { ...node("a").status, allocatable: { cpu: `${cpu * 1000 - 1}m` } } });
    expect(place(pod("new", spec), [fits], []).kind).toBe("bind");
    expect(place(pod("new", spec), [lacks], [])).toMatchObject({
      message: "0/1 nodes are available: 1 Insufficient cpu.",
    });
  });

  it("leaves a pod with required pod affinity unscheduled", () => {
    const term = { topologyKey: "zone", labelSelector: { matchLabels: { app: "db" } } };
    const near = { affinity: { podAffinity: { requiredDuringSchedulingIgnoredDuringExecution: [term] } } };
    expect(place(pod("p", near), [node("a")], [])).toMatchObject({
      kind: "wait",
      because: "not-served",
      message: expect.stringContaining("--kubeconfig") as string,
    });
  });

  it("forgets a removed pod, and a removed node", () => {
    const state = stateOf([node("a"), node("b")], [pod("big", { nodeName: "a", ...requests({ cpu: "4" }) })]);
    const wanted = pod("new", { ...requests({ cpu: "1" }), nodeSelector: { pool: "a" } });
    expect(decidePlacement(wanted, state)).toMatchObject({ node: "b" });
    state.removeNode("b");
    expect(decidePlacement(wanted, state)).toMatchObject({ message: "0/1 nodes are available: 1 Insufficient cpu." });
    state.removePod("big");
    expect(decidePlacement(wanted, state)).toMatchObject({ node: "a" });
    state.removeNode("a");
    expect(decidePlacement(wanted, state)).toMatchObject({ because: "no-nodes" });
  });

  it("breaks no rule, and places every pod that fits on some node", () => {
    fc.assert(
      fc.property(fc.array(anyNode(), { maxLength: 6 }), fc.array(anyPod(), { maxLength: 25 }), (nodeParts, specs) => {
        const nodes = nodeParts.map((part, index) => part(`n${index}`));
        const state = stateOf(nodes, []);
        const placed: V1Pod[] = [];
        for (const [index, part] of specs.entries()) {
          const wanted = part(`p${index}`);
          const fitting = nodes.filter((each) => fits(wanted, each, nodes, placed)).map((each) => each.metadata?.name);
          const placement = decidePlacement(wanted, state);
          if (placement.kind === "wait") {
            expect(fitting).toEqual([]);
            continue;
          }
          expect(fitting).toContain(placement.node);
          const bound = { ...wanted, spec: { containers: [], ...wanted.spec, nodeName: placement.node } };
          placed.push(bound);
          state.setPod(bound);
        }
      }),
      { numRuns: 500 },
    );
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
          const placement = place(wanted, nodes, placed);
          expect(place(wanted, nodes.toReversed(), placed.toReversed())).toEqual(placement);
          if (placement.kind === "wait") continue;
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

describe("isAwaitingPlacement", () => {
  it.each<[string, Partial<V1Pod>, boolean]>([
    ["a new pod", {}, true],
    ["a pod that names the default scheduler", { spec: { containers: [], schedulerName: "default-scheduler" } }, true],
    ["a pod of another scheduler", { spec: { containers: [], schedulerName: "mine" } }, false],
    ["a bound pod", { spec: { containers: [], nodeName: "a" } }, false],
    ["a pod in deletion", { metadata: { deletionTimestamp: new Date(0) } }, false],
    ["a pod that has failed", { status: { phase: "Failed" } }, false],
    ["a gated pod", { spec: { containers: [], schedulingGates: [{ name: "wait" }] } }, false],
  ])("judges %s", (_title, part, expected) => {
    expect(isAwaitingPlacement({ ...pod("p"), ...part })).toBe(expected);
  });
});

function place(wanted: V1Pod, nodes: readonly V1Node[], pods: readonly V1Pod[]): Placement {
  return decidePlacement(wanted, stateOf(nodes, pods));
}

function stateOf(nodes: readonly V1Node[], pods: readonly V1Pod[]): ClusterState {
  const state = new ClusterState();
  for (const each of nodes) state.setNode(each);
  for (const each of pods) state.setPod(each);
  return state;
}

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

/** Every rule again, in its simplest form and without an index. */
function fits(wanted: V1Pod, at: V1Node, nodes: readonly V1Node[], placed: readonly V1Pod[]): boolean {
  const labels = at.metadata?.labels ?? {};
  const name = at.metadata?.name ?? "";
  const here = placed.filter((other) => other.spec?.nodeName === name);
  const cpu = (each: V1Pod): number => parseInt(each.spec?.containers[0]?.resources?.requests?.["cpu"] ?? "0");
  const domain = (key: string, node: string): string | undefined =>
    nodes.find((each) => each.metadata?.name === node)?.metadata?.labels?.[key];
  const terms = wanted.spec?.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms;
  const apart = (each: V1Pod): V1PodAffinityTerm[] =>
    each.spec?.affinity?.podAntiAffinity?.requiredDuringSchedulingIgnoredDuringExecution ?? [];
  const meant = (term: V1PodAffinityTerm, owner: V1Pod, other: V1Pod): boolean =>
    owner.metadata?.namespace === other.metadata?.namespace &&
    matchesSelector(term.labelSelector, other.metadata?.labels ?? {});
  return (
    at.spec?.unschedulable !== true &&
    (at.spec?.taints ?? []).every((taint) => wanted.spec?.tolerations?.some((each) => each.key === taint.key)) &&
    Object.entries(wanted.spec?.nodeSelector ?? {}).every(([key, value]) => labels[key] === value) &&
    (terms === undefined || terms.some((term) => matchesNodeTerm(term, { name, labels }))) &&
    here.length < Number(at.status?.allocatable?.["pods"]) &&
    here.reduce((sum, other) => sum + cpu(other), cpu(wanted)) <= 4000 &&
    placed.every((other) => {
      const otherNode = other.spec?.nodeName ?? "";
      const together = (key: string): boolean =>
        domain(key, otherNode) !== undefined && domain(key, otherNode) === labels[key];
      return (
        !apart(wanted).some((term) => meant(term, wanted, other) && together(term.topologyKey)) &&
        !apart(other).some((term) => meant(term, other, wanted) && together(term.topologyKey))
      );
    })
  );
}

function anyNode(): fc.Arbitrary<(name: string) => V1Node> {
  const parts = fc.record({
    zone: fc.constantFrom("z1", "z2", undefined),
    unschedulable: fc.boolean(),
    rack: fc.constantFrom("r1", "r2", undefined),
    taint: fc.constantFrom("gpu", undefined, undefined),
    pods: fc.integer({ min: 0, max: 5 }),
  });
  return parts.map(({ zone, rack, unschedulable, taint, pods }) => (name) => ({
    metadata: { name, labels: { ...(zone === undefined ? {} : { zone }), ...(rack === undefined ? {} : { rack }) } },
    spec: { unschedulable, taints: taint === undefined ? [] : [{ key: taint, effect: "NoExecute" }] },
    status: { ...node(name).status, allocatable: { cpu: "4", pods: `${pods}` } },
  }));
}

function anyPod(): fc.Arbitrary<(name: string) => V1Pod> {
  const app = fc.constantFrom("web", "db");
  const key = fc.constantFrom("zone", "rack");
  const term: fc.Arbitrary<V1PodAffinityTerm> = fc.record({
    topologyKey: key,
    labelSelector: app.map((value) => ({ matchLabels: { app: value } })),
  });
  const expression = fc.record({
    key,
    operator: fc.constantFrom("In", "NotIn", "Exists", "DoesNotExist"),
    values: fc.constant("z1").map((value) => [value]),
  });
  const parts = fc.record({
    app,
    namespace: fc.constantFrom("one", "two"),
    milliCpu: fc.integer({ min: 0, max: 2500 }),
    selector: fc.constantFrom<Record<string, string>[]>({}, {}, { zone: "z1" }),
    tolerations: fc.constantFrom<V1PodSpec["tolerations"][]>([], [{ key: "gpu", operator: "Exists" }]),
    expression: fc.option(expression, { nil: undefined, freq: 3 }),
    apart: fc.option(fc.array(term, { maxLength: 2 }), { nil: undefined, freq: 3 }),
  });
  return parts.map(
    ({ app: own, namespace, milliCpu, selector, tolerations = [], expression: wish, apart }) =>
      (name) => {
        const affinity = {
          ...(wish === undefined
            ? {}
            : {
                nodeAffinity: {
                  requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [{ matchExpressions: [wish] }] },
                },
              }),
          ...(apart === undefined
            ? {}
            : { podAntiAffinity: { requiredDuringSchedulingIgnoredDuringExecution: apart } }),
        };
        const spec = { ...requests({ cpu: `${milliCpu}m` }), nodeSelector: selector, tolerations, affinity };
        const made = pod(name, spec, { app: own });
        return { ...made, metadata: { ...made.metadata, namespace } };
      },
  );
}

function antiAffinity(labels: Record<string, string>): Partial<V1PodSpec> {
  const term = { topologyKey: "kubernetes.io/hostname", labelSelector: { matchLabels: labels } };
  return { affinity: { podAntiAffinity: { requiredDuringSchedulingIgnoredDuringExecution: [term] } } };
}
