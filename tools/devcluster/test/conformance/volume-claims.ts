import { beforeAll, describe, expect, it } from "vitest";
import { until } from "@muster/testkit";
import { getList, getObject, getText } from "../../src/apiserver/json.ts";
import { type Api, pod } from "./api.ts";

const FINALIZER = "kubernetes.io/pvc-protection";

/** Claims that stay unbound: neither server has a controller of volumes. */
export function describeVolumeClaims(api: () => Api): void {
  let claims: string;
  let pods: string;
  beforeAll(async () => {
    const namespace = await api().namespace();
    claims = `/api/v1/namespaces/${namespace}/persistentvolumeclaims`;
    pods = `/api/v1/namespaces/${namespace}/pods`;
  });
  const skipWithoutController = (context: { skip: (condition: boolean, note: string) => void }): void =>
    context.skip(!api().cluster.collects, "protection ends through a controller manager");
  const spec = { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } };
  const claim = (name: string, more: object = {}): object => ({
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: { name, labels: { app: name } },
    spec: { ...spec, ...more },
  });

  describe("a claim", () => {
    it("is Pending from its creation on, whatever status it comes with", async () => {
      const made = await api().post(claims, { ...claim("fresh"), status: { phase: "Bound" } });
      expect(made.code, made.text).toBe(201);
      expect(getObject(made.body, "status")).toEqual({ phase: "Pending" });
      expect(getObject(made.body, "spec")).toEqual({ ...spec, volumeMode: "Filesystem" });
      const listed = await api().get(`${claims}?labelSelector=app%3Dfresh`);
      expect(getList(listed.body, "items").map((item) => getText(item, "status", "phase"))).toEqual(["Pending"]);
    });

    it("may be labelled and named a volume once, but not changed otherwise", async () => {
      await api().post(claims, claim("changed"));
      const patch = (body: object) => api().patch(`${claims}/changed`, "merge", body);
      expect((await patch({ metadata: { labels: { team: "a" } } })).code).toBe(200);
      const more = await patch({ spec: { resources: { requests: { storage: "2Gi" } } } });
      expect(more.code).toBe(422);
      expect(more.text).toContain("spec is immutable after creation");
      expect((await patch({ spec: { volumeName: "disk-1" } })).code).toBe(200);
      expect((await patch({ spec: { volumeName: "disk-2" } })).code).toBe(422);
    });

    it("is bound by a write of its status, and cannot grow without a class of storage", async () => {
      await api().post(claims, claim("bound"));
      const status = { phase: "Bound", accessModes: ["ReadWriteOnce"], capacity: { storage: "1Gi" } };
      const bound = await api().patch(`${claims}/bound/status`, "merge", { status });
      expect(getObject(bound.body, "status")).toEqual(status);
      const grown = await api().patch(`${claims}/bound`, "merge", {
        spec: { resources: { requests: { storage: "2Gi" } } },
      });
      expect(grown.code, grown.text).toBeGreaterThanOrEqual(400);
    });

    it.each([
      ["no access mode", { accessModes: [] }, "at least 1 access mode is required"],
      ["an unknown access mode", { accessModes: ["Sometimes"] }, 'supported values: \\"ReadOnlyMany\\"'],
      ["a mode beside ReadWriteOncePod", { accessModes: ["ReadWriteOncePod", "ReadWriteOnce"] }, "may not use"],
      ["no size", { resources: {} }, "spec.resources[storage]"],
      ["an unknown volume mode", { volumeMode: "Tape" }, 'supported values: \\"Block\\", \\"Filesystem\\"'],
    ])("is refused with %s", async (_title, wrong, because) => {
      const refused = await api().post(claims, claim("wrong", wrong));
      expect(refused.code).toBe(422);
      expect(refused.text).toContain(because);
    });

    it("is removed when it is deleted", async (context) => {
      skipWithoutController(context);
      const made = await api().post(claims, claim("gone"));
      expect(getList(made.body, "metadata", "finalizers")).toEqual([FINALIZER]);
      expect((await api().delete(`${claims}/gone`)).code).toBe(200);
      await until("it is gone", async () => (await api().get(`${claims}/gone`)).code === 404);
    });

    it("stays as long as a pod on a node names it", async (context) => {
      skipWithoutController(context);
      await api().post(claims, claim("used"));
      const volumes = [{ name: "data", persistentVolumeClaim: { claimName: "used" } }];
      const spec = { nodeName: "some-node", terminationGracePeriodSeconds: 0, volumes };
      const made = await api().post(pods, pod("user", { spec }));
      expect(made.code, made.text).toBe(201);
      const marked = await api().delete(`${claims}/used`);
      expect(marked.body).toMatchObject({ kind: "PersistentVolumeClaim", metadata: { finalizers: [FINALIZER] } });
      // An unused claim that is deleted later shows that a pass has seen the one in use.
      await api().post(claims, claim("after"));
      await api().delete(`${claims}/after`);
      await until("the other is gone", async () => (await api().get(`${claims}/after`)).code === 404);
      expect((await api().get(`${claims}/used`)).code).toBe(200);
      await api().delete(`${pods}/user`);
      await until("it is gone", async () => (await api().get(`${claims}/used`)).code === 404);
    });
  });
}
