import { until } from "@muster/testkit";
import { beforeAll, describe, expect, it } from "vitest";
import { at, type JsonObject, getList, findNumber, getText } from "../../src/apiserver/json.ts";
import { type Answer, type Api, configMap, pod, getVersion } from "./api.ts";

/** Deleting: at once, with grace, with finalizers, with owners. */
export function describeDeletion(api: () => Api): void {
  let namespace: string;
  let maps: string;
  let pods: string;
  beforeAll(async () => {
    namespace = await api().namespace();
    maps = `/api/v1/namespaces/${namespace}/configmaps`;
    pods = `/api/v1/namespaces/${namespace}/pods`;
  });
  const onNode = { spec: { nodeName: "some-node" } };
  const periodOf = (answer: Answer): number | undefined =>
    findNumber(answer.body, "metadata", "deletionGracePeriodSeconds");

  it("removes immediately and answers with a Status that names the object", async () => {
    const made = await api().post(maps, configMap("gone"));
    const answer = await api().delete(`${maps}/gone`);
    expect(answer.code).toBe(200);
    expect(answer.body).toEqual({
      kind: "Status",
      apiVersion: "v1",
      metadata: {},
      status: "Success",
      details: { name: "gone", kind: "configmaps", uid: getText(made.body, "metadata", "uid") },
    });
    expect((await api().delete(`${maps}/gone`)).code).toBe(404);
  });

  it("refuses when the uid or the version is another than required", async () => {
    const made = await api().post(maps, configMap("required"));
    const other = await api().delete(`${maps}/required`, { preconditions: { uid: "another" } });
    expect(other.code).toBe(409);
    expect(other.body).toMatchObject({ reason: "Conflict", details: { name: "required", kind: "ConfigMap" } });
    expect(getText(other.body, "message")).toContain(
      "the UID in the precondition (another) does not match the UID in record",
    );
    expect((await api().delete(`${maps}/required`, { preconditions: { resourceVersion: "1" } })).code).toBe(409);
    const preconditions = { uid: getText(made.body, "metadata", "uid"), resourceVersion: getVersion(made.body) };
    expect((await api().delete(`${maps}/required`, { preconditions })).code).toBe(200);
  });

  it("keeps everything in a dry run", async () => {
    await api().post(maps, configMap("dry"));
    expect((await api().delete(`${maps}/dry?dryRun=All`)).code).toBe(200);
    expect((await api().get(`${maps}/dry`)).code).toBe(200);
  });

  it.each([
    ["abc", 400],
    ['{"propagationPolicy":"Sideways"}', 422],
  ])("refuses the options %s", async (raw, code) => {
    await api().post(maps, configMap("options"));
    expect((await api().call("DELETE", `${maps}/options`, { raw })).code).toBe(code);
  });

  describe("with finalizers", () => {
    it("marks the object, keeps it, and removes it with the last finalizer", async () => {
      await api().post(maps, configMap("finalized", { metadata: { finalizers: ["a/a", "b/b"] } }));
      const marked = await api().delete(`${maps}/finalized`);
      expect(marked.code).toBe(200);
      expect(getText(marked.body, "metadata", "deletionTimestamp")).not.toBe("");
      expect(periodOf(marked)).toBe(0);
      await api().patch(`${maps}/finalized`, "merge", { metadata: { finalizers: ["b/b"] } });
      expect((await api().get(`${maps}/finalized`)).code).toBe(200);
      const last = await api().patch(`${maps}/finalized`, "merge", { metadata: { finalizers: null } });
      expect(last.code).toBe(200);
      expect((await api().get(`${maps}/finalized`)).code).toBe(404);
    });

    it("lets no new finalizer come once the object is marked", async () => {
      await api().post(maps, configMap("late", { metadata: { finalizers: ["a/a"] } }));
      await api().delete(`${maps}/late`);
      const answer = await api().patch(`${maps}/late`, "merge", { metadata: { finalizers: ["a/a", "b/b"] } });
      expect(answer.code).toBe(422);
      expect(getText(answer.body, "message")).toContain(
        "no new finalizers can be added if the object is being deleted",
      );
    });

    it("does not change the mark when deleted again", async () => {
      await api().post(maps, configMap("again", { metadata: { finalizers: ["a/a"] } }));
      const first = await api().delete(`${maps}/again`);
      const second = await api().delete(`${maps}/again`);
      expect(second.code).toBe(200);
      expect(getVersion(second.body)).toBe(getVersion(first.body));
    });

    it("removes nothing for the pod's node to stop before its own finalizer is gone", async () => {
      await api().post(pods, pod("held", { ...onNode, metadata: { finalizers: ["a/a"] } }));
      await api().delete(`${pods}/held`);
      await api().delete(`${pods}/held`, { gracePeriodSeconds: 0 });
      const held = await api().get(`${pods}/held`);
      expect(periodOf(held)).toBe(0);
      await api().patch(`${pods}/held`, "merge", { metadata: { finalizers: null } });
      expect((await api().get(`${pods}/held`)).code).toBe(404);
    });
  });

  describe("of pods", () => {
    it("immediately removes a pod that never reached a node, and answers with the pod", async () => {
      await api().post(pods, pod("unscheduled"));
      const answer = await api().delete(`${pods}/unscheduled`);
      expect(answer.body).toMatchObject({
        kind: "Pod",
        metadata: { name: "unscheduled", deletionGracePeriodSeconds: 0, generation: 2 },
      });
      expect((await api().get(`${pods}/unscheduled`)).code).toBe(404);
    });

    it("immediately removes a pod that has ended", async () => {
      await api().post(pods, pod("ended", onNode));
      await api().patch(`${pods}/ended/status`, "merge", { status: { phase: "Succeeded" } });
      await api().delete(`${pods}/ended`);
      expect((await api().get(`${pods}/ended`)).code).toBe(404);
    });

    it("gives a pod on a node the grace period of its spec, and leaves the removal to the node", async () => {
      await api().post(pods, pod("graceful", onNode));
      const marked = await api().delete(`${pods}/graceful`);
      expect(marked.body).toMatchObject({ kind: "Pod", metadata: { deletionGracePeriodSeconds: 30, generation: 2 } });
      const untilMs = Date.parse(getText(marked.body, "metadata", "deletionTimestamp"));
      expect(untilMs).toBeGreaterThan(Date.parse(getText(marked.body, "metadata", "creationTimestamp")) + 29_000);
      expect((await api().get(`${pods}/graceful`)).code).toBe(200);
      const final = await api().delete(`${pods}/graceful`, { gracePeriodSeconds: 0 });
      expect(periodOf(final)).toBe(0);
      expect((await api().get(`${pods}/graceful`)).code).toBe(404);
    });

    it("may shorten the time, and never make it longer", async () => {
      await api().post(pods, pod("shortened", onNode));
      const first = await api().delete(`${pods}/shortened`, { gracePeriodSeconds: 20 });
      const longer = await api().delete(`${pods}/shortened`, { gracePeriodSeconds: 25 });
      expect(getVersion(longer.body)).toBe(getVersion(first.body));
      const shorter = await api().delete(`${pods}/shortened?gracePeriodSeconds=10`);
      expect(periodOf(shorter)).toBe(10);
      const endOf = (answer: Answer): number => Date.parse(getText(answer.body, "metadata", "deletionTimestamp"));
      expect(endOf(first) - endOf(shorter)).toBe(10_000);
    });

    it("counts a negative time as one second", async () => {
      await api().post(pods, pod("negative", onNode));
      expect(periodOf(await api().delete(`${pods}/negative`, { gracePeriodSeconds: -5 }))).toBe(1);
    });

    it("evicts as it deletes", async () => {
      await api().post(pods, pod("evicted"));
      const answer = await api().post(`${pods}/evicted/eviction`, {
        apiVersion: "policy/v1",
        kind: "Eviction",
        metadata: { name: "evicted", namespace },
      });
      expect(answer.code, answer.text).toBe(201);
      expect((await api().get(`${pods}/evicted`)).code).toBe(404);
    });
  });

  describe("of owners", () => {
    const ownedBy = (owner: Answer, more: JsonObject = {}): JsonObject => ({
      ownerReferences: [
        {
          apiVersion: "v1",
          kind: "ConfigMap",
          name: getText(owner.body, "metadata", "name"),
          uid: getText(owner.body, "metadata", "uid"),
          ...more,
        },
      ],
    });
    const isGone = (name: string): Promise<true> =>
      until(`${name} is gone`, async () => (await api().get(`${maps}/${name}`)).code === 404);

    it("marks the owner with the way its dependents go", async () => {
      const made = await api().post(maps, configMap("marked", { metadata: { finalizers: ["a/a"] } }));
      expect(made.code).toBe(201);
      const answer = await api().delete(`${maps}/marked`, { propagationPolicy: "Foreground" });
      expect(getList(answer.body, "metadata", "finalizers")).toContain("foregroundDeletion");
      expect(getText(answer.body, "metadata", "deletionTimestamp")).not.toBe("");
    });

    it("refuses incomplete references", async () => {
      const answer = await api().post(
        maps,
        configMap("half", { metadata: { ownerReferences: [{ kind: "ConfigMap" }] } }),
      );
      expect([400, 422]).toContain(answer.code);
    });

    it("collects dependents in the background", async (context) => {
      context.skip(!api().cluster.collects, "collecting is the work of a controller manager");
      const owner = await api().post(maps, configMap("owner-1"));
      await api().post(maps, configMap("child-1", { metadata: ownedBy(owner) }));
      await api().post(maps, configMap("foreign-1"));
      await api().delete(`${maps}/owner-1`);
      await isGone("child-1");
      expect((await api().get(`${maps}/foreign-1`)).code).toBe(200);
    });

    it("collects dependents of an owner that never existed, and keeps owners of unknown kinds", async (context) => {
      context.skip(!api().cluster.collects, "collecting is the work of a controller manager");
      const unknown = { ownerReferences: [{ apiVersion: "example.com/v1", kind: "Widget", name: "w", uid: "w" }] };
      await api().post(maps, configMap("child-of-widget", { metadata: unknown }));
      const dangling = { ownerReferences: [{ apiVersion: "v1", kind: "ConfigMap", name: "never", uid: "never" }] };
      await api().post(maps, configMap("child-of-missing", { metadata: dangling }));
      await isGone("child-of-missing");
      expect((await api().get(`${maps}/child-of-widget`)).code).toBe(200);
    });

    it("lets dependents go first in the foreground", async (context) => {
      context.skip(!api().cluster.collects, "collecting is the work of a controller manager");
      const owner = await api().post(maps, configMap("owner-2"));
      const metadata = { ...ownedBy(owner, { blockOwnerDeletion: true }), finalizers: ["a/a"] };
      await api().post(maps, configMap("child-2", { metadata }));
      await api().delete(`${maps}/owner-2`, { propagationPolicy: "Foreground" });
      await until("the dependent is marked", async () => {
        const child = await api().get(`${maps}/child-2`);
        return at(child.body, "metadata", "deletionTimestamp") !== undefined;
      });
      expect((await api().get(`${maps}/owner-2`)).code).toBe(200);
      await api().patch(`${maps}/child-2`, "merge", { metadata: { finalizers: null } });
      await isGone("owner-2");
    });

    it("waits in the foreground only for dependents that ask for it", async (context) => {
      context.skip(!api().cluster.collects, "collecting is the work of a controller manager");
      const owner = await api().post(maps, configMap("owner-4"));
      await api().post(maps, configMap("child-4", { metadata: { ...ownedBy(owner), finalizers: ["a/a"] } }));
      await api().delete(`${maps}/owner-4`, { propagationPolicy: "Foreground" });
      await isGone("owner-4");
      await until("the dependent is marked", async () => {
        const child = await api().get(`${maps}/child-4`);
        return at(child.body, "metadata", "deletionTimestamp") !== undefined;
      });
      await api().patch(`${maps}/child-4`, "merge", { metadata: { finalizers: null } });
      await isGone("child-4");
    });

    it("keeps a dependent while one of its owners exists, and removes the other references", async (context) => {
      context.skip(!api().cluster.collects, "collecting is the work of a controller manager");
      const [first, second] = [
        await api().post(maps, configMap("owner-5a")),
        await api().post(maps, configMap("owner-5b")),
      ];
      const references = [first, second].flatMap((owner) => getList(ownedBy(owner), "ownerReferences"));
      await api().post(maps, configMap("child-5", { metadata: { ownerReferences: references } }));
      await api().delete(`${maps}/owner-5a`);
      await until("one owner is forgotten", async () => {
        const child = await api().get(`${maps}/child-5`);
        const names = getList(child.body, "metadata", "ownerReferences").map((owner) => getText(owner, "name"));
        return names.join() === "owner-5b";
      });
      await api().delete(`${maps}/owner-5b`);
      await isGone("child-5");
    });

    it("cascades over kinds, and from an owned object to its own dependents", async (context) => {
      context.skip(!api().cluster.collects, "collecting is the work of a controller manager");
      const owner = await api().post(maps, configMap("owner-6"));
      const middle = await api().post(pods, pod("middle-6", { metadata: ownedBy(owner) }));
      const ownedByPod = {
        apiVersion: "v1",
        kind: "Pod",
        name: "middle-6",
        uid: getText(middle.body, "metadata", "uid"),
      };
      const secrets = `/api/v1/namespaces/${namespace}/secrets`;
      await api().post(secrets, { metadata: { name: "leaf-6", ownerReferences: [ownedByPod] } });
      await api().delete(`${maps}/owner-6`);
      await until("the leaf is gone", async () => (await api().get(`${secrets}/leaf-6`)).code === 404);
      expect((await api().get(`${pods}/middle-6`)).code).toBe(404);
    });

    it("collects dependents of a recreated owner, or of one in another namespace", async (context) => {
      context.skip(!api().cluster.collects, "collecting is the work of a controller manager");
      const owner = await api().post(maps, configMap("owner-7"));
      await api().delete(`${maps}/owner-7`);
      await api().post(maps, configMap("owner-7"));
      await api().post(maps, configMap("child-7", { metadata: ownedBy(owner) }));
      await isGone("child-7");
      expect((await api().get(`${maps}/owner-7`)).code).toBe(200);

      const elsewhere = `/api/v1/namespaces/${await api().namespace()}/configmaps`;
      const far = await api().post(elsewhere, configMap("owner-8"));
      await api().post(maps, configMap("child-8", { metadata: ownedBy(far) }));
      await isGone("child-8");
    });

    it("collects dependents of an owner of the whole cluster in every namespace", async (context) => {
      context.skip(!api().cluster.collects, "collecting is the work of a controller manager");
      const node = await api().post("/api/v1/nodes", { metadata: { name: "owner-9" } });
      const reference = { apiVersion: "v1", kind: "Node", name: "owner-9", uid: getText(node.body, "metadata", "uid") };
      await api().post(maps, configMap("child-9", { metadata: { ownerReferences: [reference] } }));
      await api().delete("/api/v1/nodes/owner-9");
      await isGone("child-9");
    });

    it("leaves no dependent of an owner that is deleted while its dependents are created", async (context) => {
      context.skip(!api().cluster.collects, "collecting is the work of a controller manager");
      const owner = await api().post(maps, configMap("owner-10"));
      const make = (index: number): Promise<Answer> =>
        api().post(maps, configMap(`child-10-${index}`, { metadata: { ...ownedBy(owner), labels: { of: "ten" } } }));
      const made = Array.from({ length: 12 }, (_, index) => make(index));
      const deleted = api().delete(`${maps}/owner-10`);
      await Promise.all([...made, deleted]);
      await make(12);
      await until("no dependent is left", async () => {
        return getList((await api().get(`${maps}?labelSelector=of%3Dten`)).body, "items").length === 0;
      });
    });

    it("leaves orphans on request", async (context) => {
      context.skip(!api().cluster.collects, "collecting is the work of a controller manager");
      const owner = await api().post(maps, configMap("owner-3"));
      await api().post(maps, configMap("child-3", { metadata: ownedBy(owner) }));
      await api().delete(`${maps}/owner-3`, { propagationPolicy: "Orphan" });
      await isGone("owner-3");
      const child = await api().get(`${maps}/child-3`);
      expect(child.code).toBe(200);
      expect(at(child.body, "metadata", "ownerReferences")).toBeUndefined();
    });
  });

  describe("of namespaces", () => {
    it("ends a namespace and lets nothing new in", async () => {
      const name = await api().namespace();
      // Something that stays keeps the namespace from going at once.
      await api().post(
        `/api/v1/namespaces/${name}/configmaps`,
        configMap("stays", { metadata: { finalizers: ["a/a"] } }),
      );
      const answer = await api().delete(`/api/v1/namespaces/${name}`);
      expect(answer.body).toMatchObject({
        kind: "Namespace",
        status: { phase: "Terminating" },
        spec: { finalizers: ["kubernetes"] },
      });
      const made = await api().post(`/api/v1/namespaces/${name}/configmaps`, configMap("late"));
      expect(made.code).toBe(403);
      expect(made.body).toMatchObject({
        reason: "Forbidden",
        message: `configmaps "late" is forbidden: unable to create new content in namespace ${name} because it is being terminated`,
        details: { causes: [{ reason: "NamespaceTerminating" }] },
      });
    });

    it("empties a namespace and then removes it", async (context) => {
      context.skip(!api().cluster.collects, "emptying namespaces is the work of a controller manager");
      const name = await api().namespace();
      await api().post(`/api/v1/namespaces/${name}/configmaps`, configMap("inside"));
      await api().post(`/api/v1/namespaces/${name}/pods`, pod("inside"));
      await api().delete(`/api/v1/namespaces/${name}`);
      await until("the namespace is gone", async () => (await api().get(`/api/v1/namespaces/${name}`)).code === 404);
      expect(getList((await api().get(`/api/v1/namespaces/${name}/pods`)).body, "items")).toEqual([]);
    });

    it("waits for the finalizers of what is inside", async (context) => {
      context.skip(!api().cluster.collects, "emptying namespaces is the work of a controller manager");
      const name = await api().namespace();
      const inside = `/api/v1/namespaces/${name}/configmaps`;
      await api().post(inside, configMap("held", { metadata: { finalizers: ["a/a"] } }));
      await api().delete(`/api/v1/namespaces/${name}`);
      await until("what is inside is marked", async () => {
        return at((await api().get(`${inside}/held`)).body, "metadata", "deletionTimestamp") !== undefined;
      });
      expect(getText((await api().get(`/api/v1/namespaces/${name}`)).body, "status", "phase")).toBe("Terminating");
      await api().patch(`${inside}/held`, "merge", { metadata: { finalizers: null } });
      await until("the namespace is gone", async () => (await api().get(`/api/v1/namespaces/${name}`)).code === 404);
    });

    it.each(["default", "kube-system"])("never ends the namespace %s", async (name) => {
      const answer = await api().delete(`/api/v1/namespaces/${name}`);
      expect(answer.code).toBe(403);
      expect(getText(answer.body, "message")).toBe(
        `namespaces "${name}" is forbidden: this namespace may not be deleted`,
      );
    });
  });
}
