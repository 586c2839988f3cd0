import { until } from "@muster/testkit";
import { beforeAll, describe, expect, it } from "vitest";
import { at, isObject, type JsonObject, getList, findNumber, getObject, getText } from "../../src/apiserver/json.ts";
import { type Answer, type Api, nameIn } from "./api.ts";

const RECREATE = { strategy: { type: "Recreate" } };

type Skippable = { skip: (condition: boolean, note: string) => void };

/** Deployments and replica sets, with the controllers that act for them; the pods have no node, and the test reports their status as a kubelet would. */
export function describeWorkloads(api: () => Api): void {
  let namespace: string;
  beforeAll(async () => {
    namespace = await api().namespace();
  });
  const apps = (plural: string, name = ""): string =>
    `/apis/apps/v1/namespaces/${namespace}/${plural}/${name}`.replace(/\/$/, "");
  const pods = (name = ""): string => `/api/v1/namespaces/${namespace}/pods/${name}`.replace(/\/$/, "");
  const template = (app: string, image = "program:1"): object => ({
    metadata: { labels: { app } },
    spec: { containers: [{ name: "main", image }], terminationGracePeriodSeconds: 0 },
  });
  const workload = (kind: string, name: string, more: object = {}): object => ({
    apiVersion: "apps/v1",
    kind,
    metadata: { name, labels: { app: name } },
    spec: { selector: { matchLabels: { app: name } }, template: template(name), ...more },
  });
  const listOf = async (path: string, app: string): Promise<JsonObject[]> =>
    getList((await api().get(`${path}?labelSelector=app%3D${app}`)).body, "items").filter(isObject);
  const podsOf = async (app: string): Promise<JsonObject[]> =>
    (await listOf(pods(), app)).filter((one) => getText(one, "metadata", "deletionTimestamp") === "");
  const podsUntil = (app: string, count: number): Promise<JsonObject[]> =>
    until(`${app} has ${count} pods`, async () => {
      const found = await podsOf(app);
      return found.length === count && found;
    });
  const report = async (name: string, phase: string, ready: boolean): Promise<Answer> =>
    api().patch(`${pods(name)}/status`, "merge", {
      status: {
        phase,
        conditions: ready ? [{ type: "Ready", status: "True", lastTransitionTime: "2026-01-01T00:00:00Z" }] : [],
      },
    });
  /** Reports all pods of an app as ready. */
  const runAll = async (app: string): Promise<void> => {
    for (const one of await podsOf(app)) await report(nameIn(one), "Running", true);
  };
  const statusUntil = (plural: string, name: string, wanted: Record<string, number>): Promise<JsonObject> =>
    until(`${name} comes to ${JSON.stringify(wanted)}`, async () => {
      const { body } = await api().get(apps(plural, name));
      if (findNumber(body, "status", "observedGeneration") !== findNumber(body, "metadata", "generation")) return false;
      return Object.entries(wanted).every(([key, value]) => (findNumber(body, "status", key) ?? 0) === value) && body;
    });
  const condition = (workload: JsonObject, type: string): string => {
    const found = getList(workload, "status", "conditions").find((one) => getText(one, "type") === type);
    return `${getText(found, "status")} ${getText(found, "reason")}`;
  };
  const skipWithoutController = (context: Skippable): void =>
    context.skip(!api().cluster.collects, "pods of workloads are the work of a controller manager");
  const causes = ({ body }: Answer): string[] =>
    getList(body, "details", "causes").map((cause) => `${getText(cause, "field")}: ${getText(cause, "message")}`);

  describe("a deployment as it is written", () => {
    it("is completed as its template is", async () => {
      const made = await api().post(
        apps("deployments"),
        workload("Deployment", "filled", { replicas: 0, ...RECREATE }),
      );
      expect(made.code, made.text).toBe(201);
      expect(made.body).toMatchObject({ kind: "Deployment", metadata: { generation: 1 }, status: {} });
      const { progressDeadlineSeconds: _only, ...spec } = getObject(made.body, "spec");
      expect(spec).toEqual({
        replicas: 0,
        selector: { matchLabels: { app: "filled" } },
        strategy: { type: "Recreate" },
        revisionHistoryLimit: 10,
        template: {
          metadata: { labels: { app: "filled" } },
          spec: {
            containers: [
              {
                name: "main",
                image: "program:1",
                imagePullPolicy: "IfNotPresent",
                resources: {},
                terminationMessagePath: "/dev/termination-log",
                terminationMessagePolicy: "File",
              },
            ],
            dnsPolicy: "ClusterFirst",
            restartPolicy: "Always",
            schedulerName: "default-scheduler",
            securityContext: {},
            terminationGracePeriodSeconds: 0,
          },
        },
      });
    });

    it.each([
      [{ replicas: -1 }, ["spec.replicas: Invalid value: -1: must be greater than or equal to 0"]],
      [{ selector: {} }, ["spec.selector: Invalid value: {}: empty selector is invalid for deployment"]],
      [
        { selector: { matchLabels: { app: "other" } } },
        ['spec.template.metadata.labels: Invalid value: {"app":"wrong"}: `selector` does not match template `labels`'],
      ],
      [
        { template: { metadata: { labels: { app: "wrong" } }, spec: { containers: [{ name: "main" }] } } },
        ["spec.template.spec.containers[0].image: Required value"],
      ],
      [
        {
          template: {
            metadata: { labels: { app: "wrong" } },
            spec: { restartPolicy: "Never", containers: [{ name: "main", image: "a:1" }] },
          },
        },
        ['spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"'],
      ],
    ])("is refused with %j", async (wrong, because) => {
      const refused = await api().post(apps("deployments"), workload("Deployment", "wrong", { ...RECREATE, ...wrong }));
      expect(refused.code, refused.text).toBe(422);
      expect(causes(refused)).toEqual(because);
    });

    it("keeps its selector", async () => {
      await api().post(apps("deployments"), workload("Deployment", "scaled", { replicas: 0, ...RECREATE }));
      const moved = await api().patch(apps("deployments", "scaled"), "merge", {
        spec: {
          selector: { matchLabels: { more: "b" } },
          template: { metadata: { labels: { more: "b" } } },
        },
      });
      expect(moved.code).toBe(422);
      expect(moved.text).toContain("field is immutable");
    });
  });

  describe("a replica set", () => {
    it("has one pod, replaces one that ends or is removed, and counts it", async (context) => {
      skipWithoutController(context);
      const made = await api().post(apps("replicasets"), workload("ReplicaSet", "few"));
      expect(made.code, made.text).toBe(201);
      const first = await podsUntil("few", 1);
      const uid = getText(made.body, "metadata", "uid");
      for (const one of first) {
        expect(nameIn(one)).toMatch(/^few-[a-z0-9]{5}$/);
        expect(getList(one, "metadata", "ownerReferences")).toEqual([
          { apiVersion: "apps/v1", kind: "ReplicaSet", name: "few", uid, controller: true, blockOwnerDeletion: true },
        ]);
      }
      await runAll("few");
      const running = await statusUntil("replicasets", "few", { replicas: 1, readyReplicas: 1, availableReplicas: 1 });
      const { terminatingReplicas: _only, ...status } = getObject(running, "status");
      expect(status).toEqual({
        replicas: 1,
        fullyLabeledReplicas: 1,
        readyReplicas: 1,
        availableReplicas: 1,
        observedGeneration: 1,
      });
      const [ends = {}] = first;
      await report(nameIn(ends), "Failed", false);
      const [goes = {}] = await until("the pod that ended is replaced", async () => {
        const others = (await podsOf("few")).filter((one) => nameIn(one) !== nameIn(ends));
        return others.length === 1 && others;
      });
      await api().delete(pods(nameIn(goes)));
      await until("the deleted pod is replaced", async () => {
        const names = (await podsOf("few")).map(nameIn);
        return names.length === 2 && names.includes(nameIn(ends)) && !names.includes(nameIn(goes));
      });
      await statusUntil("replicasets", "few", { replicas: 1, readyReplicas: 0 });
    });

    it("deletes its pod at 0 replicas, and when it is deleted itself", async (context) => {
      skipWithoutController(context);
      await api().post(apps("replicasets"), workload("ReplicaSet", "less"));
      await podsUntil("less", 1);
      await api().patch(apps("replicasets", "less"), "merge", { spec: { replicas: 0 } });
      await podsUntil("less", 0);
      await statusUntil("replicasets", "less", { replicas: 0 });
      await api().patch(apps("replicasets", "less"), "merge", { spec: { replicas: 1 } });
      await podsUntil("less", 1);
      await api().delete(apps("replicasets", "less"));
      await podsUntil("less", 0);
    });
  });

  describe("a deployment", () => {
    it("becomes available through its own replica set", async (context) => {
      skipWithoutController(context);
      await api().post(apps("deployments"), workload("Deployment", "web", RECREATE));
      await podsUntil("web", 1);
      await runAll("web");
      const web = await statusUntil("deployments", "web", {
        replicas: 1,
        updatedReplicas: 1,
        readyReplicas: 1,
        availableReplicas: 1,
        unavailableReplicas: 0,
      });
      expect(condition(web, "Available")).toBe("True MinimumReplicasAvailable");
      expect(findNumber(web, "metadata", "generation")).toBe(1);
      const [set = {}, ...others] = await listOf(apps("replicasets"), "web");
      expect(others).toEqual([]);
      const hash = getText(set, "metadata", "labels", "pod-template-hash");
      expect(nameIn(set)).toBe(`web-${hash}`);
      expect(set).toMatchObject({
        metadata: {
          ownerReferences: [{ kind: "Deployment", name: "web", controller: true }],
        },
        spec: { replicas: 1, selector: { matchLabels: { app: "web", "pod-template-hash": hash } } },
      });
    });

    it("that is recreated never has two templates, and its deletion removes everything", async (context) => {
      skipWithoutController(context);
      await api().post(apps("deployments"), workload("Deployment", "again", { replicas: 1, ...RECREATE }));
      const [old = {}] = await podsUntil("again", 1);
      await api().patch(apps("deployments", "again"), "strategic", {
        spec: { template: template("again", "program:2") },
      });
      await until("the pod is another", async () => {
        const present = await listOf(pods(), "again");
        expect(present.length).toBeLessThan(2);
        return present.length === 1 && present.every((one) => nameIn(one) !== nameIn(old));
      });
      await api().delete(apps("deployments", "again"), { propagationPolicy: "Foreground" });
      await until("everything is gone", async () => {
        const left = [...(await listOf(pods(), "again")), ...(await listOf(apps("replicasets"), "again"))];
        return left.length === 0 && (await api().get(apps("deployments", "again"))).code === 404;
      });
    });
  });

  it("has the columns of kubectl", async () => {
    const accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    await api().post(apps("deployments"), workload("Deployment", "shown", { replicas: 0, ...RECREATE }));
    const table = await api().get(apps("deployments", "shown"), accept);
    const columns = getList(table.body, "columnDefinitions").filter((one) => at(one, "priority") === 0);
    expect(columns.map((one) => [getText(one, "name"), getText(one, "type")])).toEqual([
      ["Name", "string"],
      ["Ready", "string"],
      ["Up-to-date", "string"],
      ["Available", "string"],
      ["Age", "string"],
    ]);
    const cells = getList(getList(table.body, "rows")[0], "cells");
    expect(cells.slice(0, 4)).toEqual(["shown", "0/0", 0, 0]);
    expect(at(table.body, "kind")).toBe("Table");
  });
}
