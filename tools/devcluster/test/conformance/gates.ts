import { expect, it } from "vitest";
import { at, type JsonObject, getList, findNumber, getText } from "../../src/apiserver/json.ts";
import { type Api, pod } from "./api.ts";

/** Pods with scheduling gates. */
export function describeGates(api: () => Api, pods: () => string): void {
  const gated = (name: string, ...gates: string[]): Promise<Awaited<ReturnType<Api["post"]>>> => {
    const containers = [{ name: "main", image: "program" }];
    const schedulingGates = gates.map((gate) => ({ name: gate }));
    return api().post(pods(), pod(name, { spec: { containers, schedulingGates } }));
  };
  const causes = (answer: { readonly body: JsonObject }): string[][] =>
    getList(answer.body, "details", "causes").map((cause) => [getText(cause, "field"), getText(cause, "message")]);

  it("have a condition from the start, and also when the last gate is removed", async () => {
    const made = await gated("gated", "a.example/one", "a.example/two");
    expect(made.code, made.text).toBe(201);
    const condition = {
      type: "PodScheduled",
      status: "False",
      reason: "SchedulingGated",
      message: "Scheduling is blocked due to non-empty scheduling gates",
      lastProbeTime: null,
      lastTransitionTime: getText(made.body, "metadata", "creationTimestamp"),
    };
    expect(getList(made.body, "status", "conditions")).toMatchObject([condition]);
    const one = await api().patch(`${pods()}/gated`, "strategic", {
      spec: { schedulingGates: [{ $patch: "delete", name: "a.example/one" }] },
    });
    expect(one.code, one.text).toBe(200);
    expect(getList(one.body, "spec", "schedulingGates")).toEqual([{ name: "a.example/two" }]);
    const both = await api().patch(`${pods()}/gated`, "strategic", {
      spec: { schedulingGates: [{ $patch: "delete", name: "a.example/two" }] },
    });
    expect(at(both.body, "spec", "schedulingGates")).toBeUndefined();
    expect(getList(both.body, "status", "conditions")).toMatchObject([condition]);
    expect(findNumber(both.body, "metadata", "generation")).toBe(3);
  });

  it("lose a removed gate without any other change", async () => {
    const made = await api().post(pods(), pod("open"));
    const patch = { spec: { schedulingGates: [{ $patch: "delete", name: "a.example/one" }] } };
    const patched = await api().patch(`${pods()}/open`, "strategic", patch);
    expect(patched.code, patched.text).toBe(200);
    expect(getText(patched.body, "metadata", "resourceVersion")).toBe(
      getText(made.body, "metadata", "resourceVersion"),
    );
  });

  it("lose none if the patch names the uid of another pod", async () => {
    await gated("gated-other", "a.example/one");
    const patched = await api().patch(`${pods()}/gated-other`, "strategic", {
      metadata: { uid: "another" },
      spec: { schedulingGates: [{ $patch: "delete", name: "a.example/one" }] },
    });
    expect(patched.code, patched.text).toBe(422);
    expect(getText(patched.body, "message")).toBe(
      'Pod "gated-other" is invalid: metadata.uid: Invalid value: "another": field is immutable',
    );
  });

  it("get no further one", async () => {
    await gated("gated-twice", "a.example/one");
    const patch = { spec: { schedulingGates: [{ name: "a.example/two" }] } };
    const more = await api().patch(`${pods()}/gated-twice`, "strategic", patch);
    expect(more.code).toBe(422);
    expect(causes(more)).toEqual([
      [
        expect.stringMatching(/^spec\.schedulingGates\[\d\]\.name$/),
        "Forbidden: only deletion is allowed, but found new scheduling gate 'a.example/two'",
      ],
    ]);
  });

  it("accept fewer nodes, and no others, while they have a gate", async () => {
    const accepted = (...values: string[]): JsonObject => ({ key: "a.example/node", operator: "In", values });
    const change = (name: string, ...terms: JsonObject[][]): Promise<Awaited<ReturnType<Api["patch"]>>> => {
      const nodeSelectorTerms = terms.map((matchExpressions) => ({ matchExpressions }));
      const nodeAffinity = { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms } };
      return api().patch(`${pods()}/${name}`, "merge", { spec: { affinity: { nodeAffinity } } });
    };
    await gated("gated-narrow", "a.example/one");
    const codes: number[] = [];
    for (const terms of [
      [[accepted("a", "b")]],
      [[accepted("a", "b"), accepted("b")]],
      [[accepted("b")]],
      [[accepted("a", "b"), accepted("b")], [accepted("c")]],
    ])
      codes.push((await change("gated-narrow", ...terms)).code);
    expect(codes).toEqual([200, 200, 422, 422]);
    await api().post(pods(), pod("open-narrow"));
    expect((await change("open-narrow", [accepted("a")])).code).toBe(422);
  });

  it("have each gate once, with a valid name, and no node", async () => {
    const twice = await gated("gated-wrong", "a.example/one", "a.example/one");
    expect(causes(twice)).toEqual([["spec.schedulingGates[1]", 'Duplicate value: "a.example/one"']]);
    const odd = await gated("gated-wrong", "a/b/c");
    expect(odd.code).toBe(422);
    expect(causes(odd).map(([field]) => field)).toEqual(["spec.schedulingGates[0]"]);
    const containers = [{ name: "main", image: "program" }];
    const schedulingGates = [{ name: "a.example/one" }];
    const placed = await api().post(
      pods(),
      pod("gated-wrong", { spec: { containers, schedulingGates, nodeName: "target" } }),
    );
    expect(causes(placed)).toEqual([
      ["spec.nodeName", "Forbidden: cannot be set until all schedulingGates have been cleared"],
    ]);
  });

  it("are not bound", async () => {
    await gated("gated-bound", "a.example/one");
    const answer = await api().post(`${pods()}/gated-bound/binding`, {
      apiVersion: "v1",
      kind: "Binding",
      metadata: { name: "gated-bound" },
      target: { apiVersion: "v1", kind: "Node", name: "target" },
    });
    expect(answer.code).toBe(409);
    expect(getText(answer.body, "message")).toBe(
      'Operation cannot be fulfilled on pods/binding "gated-bound": pod gated-bound has non-empty .spec.schedulingGates',
    );
  });
}
