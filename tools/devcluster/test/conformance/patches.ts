import { beforeAll, describe, expect, it } from "vitest";
import { at, getList, getObject, getText } from "../../src/apiserver/json.ts";
import { type Api, configMap, pod, getVersion } from "./api.ts";
import { install } from "./widgets.ts";

/** The four ways to patch. */
export function describePatches(api: () => Api): void {
  let maps: string;
  let pods: string;
  let namespace: string;
  let made = 0;
  beforeAll(async () => {
    namespace = await api().namespace();
    maps = `/api/v1/namespaces/${namespace}/configmaps`;
    pods = `/api/v1/namespaces/${namespace}/pods`;
  });
  const newMap = async (more: Parameters<typeof configMap>[1] = {}): Promise<string> => {
    made += 1;
    const answer = await api().post(maps, configMap(`map-${made}`, more));
    expect(answer.code, answer.text).toBe(201);
    return `${maps}/map-${made}`;
  };
  const newPod = async (more: Parameters<typeof pod>[1] = {}): Promise<string> => {
    made += 1;
    const answer = await api().post(pods, pod(`pod-${made}`, more));
    expect(answer.code, answer.text).toBe(201);
    return `${pods}/pod-${made}`;
  };

  describe("merge patches", () => {
    it("set, replace and remove keys", async () => {
      const path = await newMap({ data: { kept: "1", changed: "1", gone: "1" } });
      const patched = await api().patch(path, "merge", { data: { changed: "2", gone: null, added: "1" } });
      expect(patched.code).toBe(200);
      expect(patched.body).toMatchObject({ kind: "ConfigMap" });
      expect(getObject(patched.body, "data")).toEqual({ kept: "1", changed: "2", added: "1" });
    });

    it("replace lists as a whole", async () => {
      const path = await newMap({ metadata: { finalizers: ["a/b"] } });
      const patched = await api().patch(path, "merge", { metadata: { finalizers: ["c/d"] } });
      expect(getList(patched.body, "metadata", "finalizers")).toEqual(["c/d"]);
    });

    it("keep the version when they change nothing", async () => {
      const path = await newMap();
      const before = await api().get(path);
      const patched = await api().patch(path, "merge", { data: { key: "value" } });
      expect(getVersion(patched.body)).toBe(getVersion(before.body));
    });

    it("conflict when they name an outdated version", async () => {
      const path = await newMap();
      const before = await api().get(path);
      await api().patch(path, "merge", { data: { first: "1" } });
      const late = await api().patch(path, "merge", {
        metadata: { resourceVersion: getVersion(before.body) },
        data: { late: "1" },
      });
      expect(late.code).toBe(409);
      expect(late.body).toMatchObject({ reason: "Conflict" });
    });

    it("cannot rename, nor reach what does not exist", async () => {
      const path = await newMap();
      expect((await api().patch(path, "merge", { metadata: { name: "renamed" } })).code).toBe(400);
      expect((await api().patch(`${maps}/absent`, "merge", { data: {} })).code).toBe(404);
    });

    it("cannot be of the wrong type, or malformed", async () => {
      const path = await newMap();
      expect((await api().patch(path, "merge", { data: { key: 1 } })).code).toBe(422);
      expect((await api().call("PATCH", path, { raw: '{"data":', type: "application/merge-patch+json" })).code).toBe(
        400,
      );
    });
  });

  describe("JSON patches", () => {
    it("add, replace, remove, move, copy and test", async () => {
      const metadata = { annotations: { "a.b/c": "old" } };
      const fine = await newMap({ data: { a: "1", b: "2", c: "3" }, metadata });
      const done = await api().patch(fine, "json", [
        { op: "test", path: "/data/a", value: "1" },
        { op: "replace", path: "/data/a", value: "10" },
        { op: "remove", path: "/data/b" },
        { op: "move", from: "/data/c", path: "/data/moved" },
        { op: "copy", from: "/data/a", path: "/data/copied" },
        { op: "add", path: "/data/added", value: "5" },
        { op: "replace", path: "/data/replaced", value: "6" },
        { op: "remove", path: "/metadata/annotations" },
      ]);
      expect(getObject(done.body, "data")).toEqual({ a: "10", moved: "3", copied: "10", added: "5", replaced: "6" });
      expect(at(done.body, "metadata", "annotations")).toBeUndefined();
    });

    it("reach keys that have a slash", async () => {
      const path = await newMap({ metadata: { annotations: { "a.b/c": "old" } } });
      const patched = await api().patch(path, "json", [
        { op: "replace", path: "/metadata/annotations/a.b~1c", value: "new" },
      ]);
      expect(getObject(patched.body, "metadata", "annotations")).toEqual({ "a.b/c": "new" });
    });

    it("insert into lists and append to them", async () => {
      const path = await newMap({ metadata: { finalizers: ["b/b"] } });
      const patched = await api().patch(path, "json", [
        { op: "add", path: "/metadata/finalizers/0", value: "a/a" },
        { op: "add", path: "/metadata/finalizers/-", value: "c/c" },
      ]);
      expect(getList(patched.body, "metadata", "finalizers")).toEqual(["a/a", "b/b", "c/c"]);
    });

    it.each([
      [{ op: "test", path: "/data/key", value: "another" }],
      [{ op: "remove", path: "/data/absent" }],
      [{ op: "replace", path: "/metadata/finalizers/0", value: "a/b" }],
      [{ op: "add", path: "/absent/deep", value: "1" }],
      [{ op: "invent", path: "/data/key" }],
    ])("are refused with 422 when they do not fit: %j", async (operation) => {
      const patched = await api().patch(await newMap(), "json", [operation]);
      expect(patched.code).toBe(422);
      expect(patched.body).toMatchObject({ reason: "Invalid" });
    });

    it("are refused with 400 when they are no list", async () => {
      expect((await api().patch(await newMap(), "json", { op: "add" })).code).toBe(400);
    });
  });

  describe("strategic merge patches", () => {
    it("merge containers by name and keep the others", async () => {
      const containers = [
        { name: "a", image: "a:1" },
        { name: "b", image: "b:1" },
      ];
      const path = await newPod({ spec: { containers } });
      const patched = await api().patch(path, "strategic", { spec: { containers: [{ name: "b", image: "b:2" }] } });
      expect(patched.code, patched.text).toBe(200);
      expect(patched.body).toMatchObject({
        spec: {
          containers: [
            { name: "a", image: "a:1" },
            { name: "b", image: "b:2" },
          ],
        },
      });
    });

    it("merge conditions by type, and remove one that is marked", async () => {
      const path = await newPod();
      const status = (conditions: object[]): Promise<unknown> =>
        api().patch(`${path}/status`, "strategic", { status: { conditions } });
      await status([{ type: "Ready", status: "False" }]);
      await status([{ type: "Initialized", status: "True" }]);
      await status([{ type: "Ready", status: "True" }]);
      const both = await api().get(path);
      const summary = getList(both.body, "status", "conditions").map(
        (one) => `${getText(one, "type")}=${getText(one, "status")}`,
      );
      expect(summary.sort()).toEqual(["Initialized=True", "Ready=True"]);
      await status([{ $patch: "delete", type: "Ready" }]);
      const one = await api().get(path);
      expect(getList(one.body, "status", "conditions").map((condition) => getText(condition, "type"))).toEqual([
        "Initialized",
      ]);
    });

    it("merge finalizers as a set, and take out those that are named", async () => {
      const path = await newMap({ metadata: { finalizers: ["a/a"] } });
      await api().patch(path, "strategic", { metadata: { finalizers: ["b/b"] } });
      const both = await api().get(path);
      expect([...getList(both.body, "metadata", "finalizers")].sort()).toEqual(["a/a", "b/b"]);
      const patched = await api().patch(path, "strategic", {
        metadata: { "$deleteFromPrimitiveList/finalizers": ["a/a"] },
      });
      expect(getList(patched.body, "metadata", "finalizers")).toEqual(["b/b"]);
    });

    it("replace a map that is marked so", async () => {
      const path = await newMap({ data: { a: "1", b: "2" } });
      const patched = await api().patch(path, "strategic", { data: { $patch: "replace", c: "3" } });
      expect(getObject(patched.body, "data")).toEqual({ c: "3" });
    });

    it("replace tolerations and taints as a whole", async () => {
      await api().post("/api/v1/nodes", {
        metadata: { name: "tainted" },
        spec: { taints: [{ key: "a", effect: "NoSchedule" }] },
      });
      const patched = await api().patch("/api/v1/nodes/tainted", "strategic", {
        spec: { taints: [{ key: "b", effect: "NoExecute" }] },
      });
      expect(getList(patched.body, "spec", "taints").map((taint) => getText(taint, "key"))).toEqual(["b"]);
    });

    it("remove keys with null", async () => {
      const path = await newMap({ metadata: { labels: { a: "1", b: "2" } } });
      const patched = await api().patch(path, "strategic", { metadata: { labels: { a: null } } });
      expect(getObject(patched.body, "metadata", "labels")).toEqual({ b: "2" });
    });
  });

  describe("server-side apply", () => {
    const apply = (path: string, manager: string, body: object): ReturnType<Api["patch"]> =>
      api().patch(`${path}?fieldManager=${manager}&force=true`, "apply", body);

    it("creates a missing object, and changes an existing one", async () => {
      made += 1;
      const path = `${maps}/map-${made}`;
      const first = await apply(path, "me", configMap(`map-${made}`, { data: { a: "1" } }));
      expect(first.code, first.text).toBe(201);
      const second = await apply(path, "me", configMap(`map-${made}`, { data: { a: "2" } }));
      expect(second.code).toBe(200);
      expect(second.body).toMatchObject({ data: { a: "2" } });
    });

    it("keeps what another manager has applied", async () => {
      made += 1;
      const path = `${maps}/map-${made}`;
      const named = (data: object): object => configMap(`map-${made}`, { data });
      await apply(path, "one", named({ a: "1", b: "1" }));
      const patched = await apply(path, "two", named({ b: "2", c: "1" }));
      expect(getObject(patched.body, "data")).toEqual({ a: "1", b: "2", c: "1" });
    });

    it("keeps the version when the same is applied again", async () => {
      made += 1;
      const path = `${maps}/map-${made}`;
      const first = await apply(path, "me", configMap(`map-${made}`));
      const second = await apply(path, "me", configMap(`map-${made}`));
      expect(getVersion(second.body)).toBe(getVersion(first.body));
    });

    it("merges containers by name", async () => {
      const path = await newPod();
      const name = path.split("/").at(-1) ?? "";
      const spec = { containers: [{ name: "main", image: "program:2" }] };
      const patched = await apply(path, "me", { apiVersion: "v1", kind: "Pod", metadata: { name }, spec });
      expect(patched.code, patched.text).toBe(200);
      expect(getText(getList(patched.body, "spec", "containers")[0], "image")).toBe("program:2");
    });

    it("of custom resources merges objects and replaces lists", async () => {
      const text = { type: "string" };
      const spec = {
        type: "object",
        properties: {
          size: { ...text, default: "small" },
          free: { type: "object", "x-kubernetes-preserve-unknown-fields": true },
          list: { type: "array", items: text },
        },
      };
      const group = "applied.example.com";
      const schema = { type: "object", properties: { spec } };
      await install(api(), { group, plural: "widgets", kind: "Widget", schema });
      const widget = (fields: object): object => ({
        apiVersion: `${group}/v1`,
        kind: "Widget",
        metadata: { name: "applied" },
        spec: fields,
      });
      const path = `/apis/${group}/v1/namespaces/${namespace}/widgets/applied`;
      const created = await apply(path, "one", widget({ free: { a: 1 }, list: ["a", "b"] }));
      expect(created.code, created.text).toBe(201);
      const changed = await apply(path, "two", widget({ free: { b: 2 }, list: ["c"] }));
      expect(getObject(changed.body, "spec")).toEqual({ size: "small", free: { a: 1, b: 2 }, list: ["c"] });
    });

    it("refuses a uid where nothing exists, and force where nothing is applied", async () => {
      const absent = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "absent", uid: "abc" } };
      expect((await apply(`${maps}/absent`, "me", absent)).code).toBe(409);
      expect((await api().patch(`${await newMap()}?force=true`, "merge", { data: {} })).code).toBe(422);
    });

    it("requires a manager and a kind", async () => {
      const path = await newMap();
      const name = path.split("/").at(-1) ?? "";
      expect((await api().patch(path, "apply", configMap(name))).code).toBe(422);
      expect((await api().patch(`${path}?fieldManager=me`, "apply", { metadata: { name } })).code).toBe(400);
    });
  });

  it("have no other form", async () => {
    const patched = await api().call("PATCH", await newMap(), { raw: "{}", type: "application/json" });
    expect(patched.code).toBe(415);
    expect(at(patched.body, "reason")).toBe("UnsupportedMediaType");
  });
}
