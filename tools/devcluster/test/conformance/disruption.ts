import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findKubectl, until } from "@muster/testkit";
import { beforeAll, describe, expect, it } from "vitest";
import { type JsonObject, getList, findNumber, getObject, getText } from "../../src/apiserver/json.ts";
import { type Answer, type Api, pod } from "./api.ts";

type PodState = { readonly node?: string; readonly ready?: boolean; readonly phase?: string };

/** Budgets, evictions, and the drain that goes by them. */
export function describeDisruption(api: () => Api): void {
  let namespace: string;
  let pods: string;
  let budgets: string;
  beforeAll(async () => {
    namespace = await api().namespace();
    pods = `/api/v1/namespaces/${namespace}/pods`;
    budgets = `/apis/policy/v1/namespaces/${namespace}/poddisruptionbudgets`;
  });
  const budget = (name: string, spec: object): object => ({
    apiVersion: "policy/v1",
    kind: "PodDisruptionBudget",
    metadata: { name },
    spec: { selector: { matchLabels: { app: name } }, ...spec },
  });
  const run = async (name: string, app: string, { node = "some-node", ready = true, phase }: PodState = {}) => {
    const spec = { nodeName: node, terminationGracePeriodSeconds: 0 };
    const made = await api().post(pods, pod(name, { labels: { app }, spec }));
    expect(made.code, made.text).toBe(201);
    const conditions = [{ type: "Ready", status: ready ? "True" : "False" }];
    await api().patch(`${pods}/${name}/status`, "merge", { status: { phase: phase ?? "Running", conditions } });
  };
  const evict = (name: string, more: object = {}): Promise<Answer> =>
    api().post(`${pods}/${name}/eviction`, {
      apiVersion: "policy/v1",
      kind: "Eviction",
      metadata: { name, namespace },
      ...more,
    });
  /** The status once it is as wanted. */
  const status = (name: string, wanted: Record<string, number>): Promise<JsonObject> =>
    until(`the budget ${name} comes to ${JSON.stringify(wanted)}`, async () => {
      const found = getObject((await api().get(`${budgets}/${name}`)).body, "status");
      if (findNumber(found, "observedGeneration") === undefined) return false;
      return Object.entries(wanted).every(([key, value]) => findNumber(found, key) === value) && found;
    });
  const isGone = async (name: string): Promise<boolean> => (await api().get(`${pods}/${name}`)).code === 404;
  const skipWithoutController = (context: { skip: (condition: boolean, note: string) => void }): void =>
    context.skip(!api().cluster.collects, "the status of budgets is the work of a controller manager");

  describe("a budget", () => {
    it("begins with nothing allowed, whatever status it comes with", async () => {
      const made = await api().post(budgets, {
        ...budget("fresh", { minAvailable: 1 }),
        status: { currentHealthy: 7 },
      });
      expect(made.code, made.text).toBe(201);
      expect(made.body).toMatchObject({ kind: "PodDisruptionBudget", metadata: { generation: 1 } });
      expect(made.body["status"]).toEqual({
        disruptionsAllowed: 0,
        currentHealthy: 0,
        desiredHealthy: 0,
        expectedPods: 0,
      });
    });

    it.each([
      [{ minAvailable: -1 }, "spec.minAvailable: Invalid value: -1: must be greater than or equal to 0"],
      [{ maxUnavailable: "150%" }, 'spec.maxUnavailable: Invalid value: "150%": must not be greater than 100%'],
      [
        { minAvailable: "half" },
        `spec.minAvailable: Invalid value: "half": a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')`,
      ],
      [
        { minAvailable: 2, maxUnavailable: 1 },
        'spec: Invalid value: {"MinAvailable":2,"Selector":{"matchLabels":{"app":"bad"}},"MaxUnavailable":1,"UnhealthyPodEvictionPolicy":null}: minAvailable and maxUnavailable cannot be both set',
      ],
      [
        { minAvailable: 1, unhealthyPodEvictionPolicy: "Never" },
        'spec.unhealthyPodEvictionPolicy: Unsupported value: "Never": supported values: "AlwaysAllow", "IfHealthyBudget"',
      ],
    ])("is refused with %j", async (spec, problem) => {
      const refused = await api().post(budgets, budget("bad", spec));
      expect(refused.code).toBe(422);
      expect(getText(refused.body, "message")).toBe(`PodDisruptionBudget.policy "bad" is invalid: ${problem}`);
    });

    it("is not updated without a version, and counts its generations", async () => {
      await api().post(budgets, budget("counted", { minAvailable: 1 }));
      expect((await api().put(`${budgets}/counted`, budget("counted", { minAvailable: 2 }))).code).toBe(422);
      const changed = await api().patch(`${budgets}/counted`, "merge", { spec: { minAvailable: 2 } });
      expect(findNumber(changed.body, "metadata", "generation")).toBe(2);
    });

    it("computes what its pods allow", async (context) => {
      skipWithoutController(context);
      await api().post(budgets, budget("counts", { minAvailable: 1 }));
      expect(await status("counts", { expectedPods: 0, desiredHealthy: 1 })).toMatchObject({
        observedGeneration: 1,
        disruptionsAllowed: 0,
        conditions: [{ type: "DisruptionAllowed", status: "False", reason: "InsufficientPods", observedGeneration: 1 }],
      });
      for (const name of ["counts-1", "counts-2", "counts-3"]) await run(name, "counts");
      await run("counts-4", "counts", { ready: false });
      const found = await status("counts", { currentHealthy: 3, expectedPods: 4, disruptionsAllowed: 2 });
      expect(getList(found, "conditions")).toMatchObject([{ status: "True", reason: "SufficientPods" }]);
      await api().patch(`${budgets}/counts`, "merge", { spec: { minAvailable: 3 } });
      await status("counts", { observedGeneration: 2, desiredHealthy: 3, disruptionsAllowed: 0 });
    });

    it.each([
      ["none", {}],
      ["part", { minAvailable: "50%" }],
      ["most", { maxUnavailable: 1 }],
    ])("allows nothing where only a controller knows how many pods should exist (%s)", async (name, spec) => {
      if (!api().cluster.collects) return;
      await run(`${name}-1`, name);
      await api().post(budgets, budget(name, spec));
      await status(name, { currentHealthy: 1, desiredHealthy: 0, expectedPods: 0, disruptionsAllowed: 0 });
    });
  });

  describe("an eviction", () => {
    it("deletes a pod that no budget selects", async () => {
      await run("free", "free");
      const answer = await evict("free");
      expect(answer.code).toBe(201);
      expect(answer.body).toEqual({ kind: "Status", apiVersion: "v1", metadata: {}, status: "Success", code: 201 });
      expect(await isGone("free")).toBe(true);
    });

    it("records on the pod why it ends", async () => {
      const spec = { nodeName: "some-node", terminationGracePeriodSeconds: 30 };
      await api().post(pods, pod("explained", { spec }));
      await api().patch(`${pods}/explained/status`, "merge", { status: { phase: "Running" } });
      expect((await evict("explained")).code).toBe(201);
      const found = await api().get(`${pods}/explained`);
      expect(getText(found.body, "metadata", "deletionTimestamp")).not.toBe("");
      const conditions = getList(found.body, "status", "conditions");
      expect(conditions.find((one) => getText(one, "type") === "DisruptionTarget")).toMatchObject({
        status: "True",
        reason: "EvictionByEvictionAPI",
        message: "Eviction API: evicting",
      });
    });

    it("uses up the budget's allowance, and then is refused with this message", async (context) => {
      skipWithoutController(context);
      await api().post(budgets, budget("spent", { minAvailable: 2 }));
      for (const name of ["spent-1", "spent-2", "spent-3"]) await run(name, "spent");
      await status("spent", { disruptionsAllowed: 1 });
      expect((await evict("spent-1", { deleteOptions: { dryRun: ["All"] } })).code).toBe(201);
      expect(await isGone("spent-1")).toBe(false);
      expect((await evict("spent-1")).code).toBe(201);
      const refused = await evict("spent-2");
      expect(refused.code).toBe(429);
      expect(refused.body).toMatchObject({
        reason: "TooManyRequests",
        message: "Cannot evict pod as it would violate the pod's disruption budget.",
      });
      await status("spent", { currentHealthy: 2, disruptionsAllowed: 0 });
      const again = await evict("spent-2");
      expect(getList(again.body, "details", "causes")).toEqual([
        { reason: "DisruptionBudget", message: "The disruption budget spent needs 2 healthy pods and has 2 currently" },
      ]);
      await run("spent-4", "spent");
      await status("spent", { disruptionsAllowed: 1 });
      expect((await evict("spent-2")).code).toBe(201);
    });

    it("is a failure if two budgets select the pod", async () => {
      await run("twice", "twice");
      await api().post(budgets, budget("twice", { minAvailable: 0 }));
      await api().post(budgets, { ...budget("twice", { minAvailable: 0 }), metadata: { name: "twice-too" } });
      await until("both are known", async () => (await evict("twice")).code === 500);
      const refused = await evict("twice");
      expect(getText(refused.body, "message")).toBe(
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
      );
    });

    it("uses no allowance for a pod that has ended or never began", async (context) => {
      skipWithoutController(context);
      await api().post(budgets, budget("over", { minAvailable: 5 }));
      await run("over-1", "over", { phase: "Succeeded" });
      await run("over-2", "over", { phase: "Pending", ready: false });
      await status("over", { expectedPods: 2, disruptionsAllowed: 0 });
      expect((await evict("over-1")).code).toBe(201);
      expect((await evict("over-2")).code).toBe(201);
    });

    it("protects a pod that is not ready as long as too few others are", async (context) => {
      skipWithoutController(context);
      await api().post(budgets, budget("ill", { minAvailable: 1 }));
      await run("ill-1", "ill", { ready: false });
      await status("ill", { expectedPods: 1, currentHealthy: 0 });
      const refused = await evict("ill-1");
      expect(refused.code).toBe(429);
      expect(getText(getList(refused.body, "details", "causes")[0], "message")).toBe(
        "The disruption budget ill needs 1 healthy pods and has 0 currently",
      );
      await run("ill-2", "ill");
      await status("ill", { currentHealthy: 1, disruptionsAllowed: 0 });
      expect((await evict("ill-1")).code).toBe(201);
      expect((await evict("ill-2")).code).toBe(429);
    });

    it("always evicts a pod that is not ready where the budget permits it", async (context) => {
      skipWithoutController(context);
      await api().post(budgets, budget("lax", { minAvailable: 1, unhealthyPodEvictionPolicy: "AlwaysAllow" }));
      await run("lax-1", "lax", { ready: false });
      await status("lax", { expectedPods: 1, disruptionsAllowed: 0 });
      expect((await evict("lax-1")).code).toBe(201);
    });

    it("is refused for a pod that is not there, another name, and preconditions that do not hold", async () => {
      expect((await evict("missing")).code).toBe(404);
      await run("named", "named");
      const other = await evict("named", { metadata: { name: "other", namespace } });
      expect(other.code).toBe(400);
      expect(getText(other.body, "message")).toBe("name in URL does not match name in Eviction object");
      expect((await evict("named", { deleteOptions: { preconditions: { uid: "another" } } })).code).toBe(409);
      expect(await isGone("named")).toBe(false);
    });
  });

  const kubectl = findKubectl();
  describe.skipIf(!("path" in kubectl))("kubectl drain", () => {
    const drain = async (...args: string[]): Promise<{ failed: boolean; text: string }> => {
      const home = await mkdtemp(join(tmpdir(), "muster-kubectl-"));
      const env = { HOME: home, PATH: "/usr/bin:/bin", KUBECONFIG: api().cluster.kubeconfig };
      const program = "path" in kubectl ? kubectl.path : "";
      const done = await new Promise<{ failed: boolean; text: string }>((resolve) => {
        execFile(program, ["drain", ...args], { env }, (error, out, err) => {
          resolve({ failed: error !== null, text: out + err });
        });
      });
      await rm(home, { recursive: true, force: true });
      return done;
    };

    it("waits for the budget, and empties the node once it allows it", async (context) => {
      skipWithoutController(context);
      await api().post("/api/v1/nodes", { metadata: { name: "drained" } });
      await api().post(budgets, budget("kept", { minAvailable: 1 }));
      await run("kept-1", "kept", { node: "drained" });
      await run("kept-2", "kept", { node: "drained" });
      await status("kept", { disruptionsAllowed: 1 });
      const first = await drain("drained", "--force", "--timeout=3s");
      expect(first.failed, first.text).toBe(true);
      expect(first.text).toContain("Cannot evict pod as it would violate the pod's disruption budget.");
      const left = (await api().get(`${pods}?labelSelector=app%3Dkept`)).body;
      expect(getList(left, "items")).toHaveLength(1);
      await run("kept-3", "kept", { node: "elsewhere" });
      await status("kept", { currentHealthy: 2, disruptionsAllowed: 1 });
      const second = await drain("drained", "--force", "--timeout=30s");
      expect(second.failed, second.text).toBe(false);
      const after = getList((await api().get(`${pods}?labelSelector=app%3Dkept`)).body, "items");
      expect(after.map((one) => getText(one, "metadata", "name"))).toEqual(["kept-3"]);
      expect((await api().get("/api/v1/nodes/drained")).body).toMatchObject({ spec: { unschedulable: true } });
      // Other suites look at the nodes of the whole cluster.
      await api().delete("/api/v1/nodes/drained");
    });
  });
}
