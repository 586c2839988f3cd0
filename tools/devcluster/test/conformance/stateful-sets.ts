import { until } from "@muster/testkit";
import { beforeAll, describe, expect, it } from "vitest";
import { isObject, type JsonObject, getList, findNumber, getObject, getText } from "../../src/apiserver/json.ts";
import { type Answer, type Api, nameIn } from "./api.ts";

/** Stateful sets, with the controllers that act for them; the pods have no node, and the test reports their status as a kubelet would. */
export function describeStatefulSets(api: () => Api): void {
  let namespace: string;
  beforeAll(async () => {
    namespace = await api().namespace();
  });
  const sets = (name = ""): string => `/apis/apps/v1/namespaces/${namespace}/statefulsets/${name}`.replace(/\/$/, "");
  const core = (plural: string, name = ""): string =>
    `/api/v1/namespaces/${namespace}/${plural}/${name}`.replace(/\/$/, "");
  const template = (app: string, image = "program:1"): object => ({
    metadata: { labels: { app } },
    spec: { containers: [{ name: "main", image }], terminationGracePeriodSeconds: 0 },
  });
  const set = (name: string, more: object = {}): object => ({
    apiVersion: "apps/v1",
    kind: "StatefulSet",
    metadata: { name },
    spec: { serviceName: name, selector: { matchLabels: { app: name } }, template: template(name), ...more },
  });
  const itemsOf = async (plural: string, app: string): Promise<JsonObject[]> =>
    getList((await api().get(`${core(plural)}?labelSelector=app%3D${app}`)).body, "items").filter(isObject);
  const podsUntil = (app: string, names: readonly string[]): Promise<JsonObject[]> =>
    until(`${app} has the pods ${names.join()}`, async () => {
      const found = await itemsOf("pods", app);
      return found.map(nameIn).join() === names.join() && found;
    });
  const run = async (name: string): Promise<Answer> =>
    api().patch(`${core("pods", name)}/status`, "merge", {
      status: {
        phase: "Running",
        conditions: [{ type: "Ready", status: "True", lastTransitionTime: "2026-01-01T00:00:00Z" }],
      },
    });
  const statusUntil = (name: string, wanted: Record<string, number>): Promise<JsonObject> =>
    until(`${name} comes to ${JSON.stringify(wanted)}`, async () => {
      const { body } = await api().get(sets(name));
      if (findNumber(body, "status", "observedGeneration") !== findNumber(body, "metadata", "generation")) return false;
      return Object.entries(wanted).every(([key, value]) => (findNumber(body, "status", key) ?? 0) === value) && body;
    });
  const imageOf = (pod: JsonObject): string => getText(getList(pod, "spec", "containers")[0], "image");
  const skipWithoutController = (context: { skip: (condition: boolean, note: string) => void }): void =>
    context.skip(!api().cluster.collects, "pods of stateful sets are the work of a controller manager");
  const causes = ({ body }: Answer): string[] =>
    getList(body, "details", "causes").map((cause) => `${getText(cause, "field")}: ${getText(cause, "message")}`);

  describe("as it is written", () => {
    it("is completed", async () => {
      const made = await api().post(sets(), set("filled", { replicas: 0 }));
      expect(made.code, made.text).toBe(201);
      expect(made.body["status"]).toEqual({ replicas: 0, availableReplicas: 0 });
      const { template: _template, ...spec } = getObject(made.body, "spec");
      expect(spec).toEqual({
        replicas: 0,
        serviceName: "filled",
        selector: { matchLabels: { app: "filled" } },
        podManagementPolicy: "OrderedReady",
        updateStrategy: { type: "RollingUpdate", rollingUpdate: { partition: 0 } },
        revisionHistoryLimit: 10,
        persistentVolumeClaimRetentionPolicy: { whenDeleted: "Retain", whenScaled: "Retain" },
      });
    });

    it.each([[{ selector: {} }, ["spec.selector: Invalid value: {}: empty selector is invalid for statefulset"]]])(
      "is refused with %j",
      async (wrong, because) => {
        const refused = await api().post(sets(), set("wrong", wrong));
        expect(refused.code, refused.text).toBe(422);
        expect(causes(refused)).toEqual(because);
      },
    );

    it("keeps what its pods are known by", async () => {
      await api().post(sets(), set("kept", { replicas: 0 }));
      const renamed = await api().patch(sets("kept"), "merge", { spec: { serviceName: "other" } });
      expect(renamed.code).toBe(422);
      expect(causes(renamed)).toEqual([expect.stringMatching(/^spec: Forbidden: updates to statefulset spec for /)]);
    });
  });

  it("has one pod, recreates it under its name, and deletes it at 0 replicas", async (context) => {
    skipWithoutController(context);
    const made = await api().post(sets(), set("db"));
    expect(made.code, made.text).toBe(201);
    const [first = {}] = await podsUntil("db", ["db-0"]);
    expect(first).toMatchObject({
      metadata: {
        labels: { app: "db", "apps.kubernetes.io/pod-index": "0", "statefulset.kubernetes.io/pod-name": "db-0" },
        ownerReferences: [{ kind: "StatefulSet", name: "db", controller: true, blockOwnerDeletion: true }],
      },
      spec: {
        hostname: "db-0",
        subdomain: "db",
      },
    });
    await run("db-0");
    const status = await statusUntil("db", {
      replicas: 1,
      readyReplicas: 1,
      currentReplicas: 1,
      updatedReplicas: 1,
      availableReplicas: 1,
    });
    const revision = getText(first, "metadata", "labels", "controller-revision-hash");
    expect(revision).toMatch(/^db-[a-z0-9]+$/);
    expect(getObject(status, "status")).toMatchObject({ currentRevision: revision, updateRevision: revision });
    const uid = getText(first, "metadata", "uid");
    await api().delete(core("pods", "db-0"));
    await until("it is another of the same name", async () => {
      const { code, body } = await api().get(core("pods", "db-0"));
      return code === 200 && getText(body, "metadata", "uid") !== uid;
    });
    await run("db-0");
    await api().patch(sets("db"), "merge", { spec: { replicas: 0 } });
    await podsUntil("db", []);
    await api().patch(sets("db"), "merge", { spec: { replicas: 1 } });
    await podsUntil("db", ["db-0"]);
    await api().delete(sets("db"));
    await podsUntil("db", []);
  });

  it("replaces the pod of an old template", async (context) => {
    skipWithoutController(context);
    await api().post(sets(), set("rolls"));
    await podsUntil("rolls", ["rolls-0"]);
    await run("rolls-0");
    await statusUntil("rolls", { availableReplicas: 1 });
    await api().patch(sets("rolls"), "strategic", { spec: { template: template("rolls", "program:2") } });
    await until("the pod has the new image", async () => {
      const found = await itemsOf("pods", "rolls");
      return found.map(imageOf).join() === "program:2";
    });
    await run("rolls-0");
    const done = await statusUntil("rolls", { availableReplicas: 1, currentReplicas: 1, updatedReplicas: 1 });
    expect(getText(done, "status", "currentRevision")).toBe(getText(done, "status", "updateRevision"));
  });
}
