import { beforeAll, describe, expect, it } from "vitest";
import { at, type JsonObject, listAt, mapEntries, objectAt, textAt } from "../../src/apiserver/json.ts";
import { type Answer, type Api, configMap, pod, versionIn } from "./api.ts";
import { install } from "./widgets.ts";

const GROUP = "applied.example.com";

/** Server-side apply: who owns which field. */
export function describeApply(api: () => Api): void {
  let base: string;
  let widgets: string;
  let made = 0;
  beforeAll(async () => {
    const namespace = await api().namespace();
    base = `/api/v1/namespaces/${namespace}`;
    const item = {
      type: "object",
      required: ["k"],
      properties: { k: { type: "string" }, v: { type: "integer" }, w: { type: "string", default: "d" } },
    };
    await install(api(), {
      group: GROUP,
      plural: "widgets",
      kind: "Widget",
      version: { subresources: { status: {} } },
      schema: {
        type: "object",
        properties: {
          spec: {
            type: "object",
            properties: {
              size: { type: "string", default: "small" },
              atomic: { type: "array", items: { type: "string" } },
              set: { type: "array", "x-kubernetes-list-type": "set", items: { type: "string" } },
              map: { type: "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], items: item },
              free: { type: "object", "x-kubernetes-preserve-unknown-fields": true },
            },
          },
          status: { type: "object", properties: { phase: { type: "string" } } },
        },
      },
    });
    widgets = `/apis/${GROUP}/v1/namespaces/${namespace}/widgets`;
  });
  const apply = (path: string, manager: string, body: object, force = false): Promise<Answer> =>
    api().patch(`${path}?fieldManager=${manager}${force ? "&force=true" : ""}`, "apply", body);
  const newMap = async (data: object): Promise<{ path: string; map: (data?: object, metadata?: object) => object }> => {
    made += 1;
    const name = `map-${made}`;
    const answer = await api().call("POST", `${base}/configmaps?fieldManager=creator`, {
      body: configMap(name, { data }),
    });
    expect(answer.code, answer.text).toBe(201);
    const map = (next?: object, metadata: object = {}): object => ({
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { name, ...metadata },
      ...(next === undefined ? {} : { data: next }),
    });
    return { path: `${base}/configmaps/${name}`, map };
  };
  const message = (answer: Answer): string => textAt(answer.body, "message");

  describe("conflicts", () => {
    it("with who wrote another value, named field by field", async () => {
      const { path, map } = await newMap({ a: "1", b: "1" });
      const one = await apply(path, "one", map({ a: "2" }));
      expect([one.code, message(one)]).toEqual([
        409,
        'Apply failed with 1 conflict: conflict with "creator" using v1: .data.a',
      ]);
      expect(one.body).toMatchObject({
        reason: "Conflict",
        details: {
          causes: [{ reason: "FieldManagerConflict", message: 'conflict with "creator" using v1', field: ".data.a" }],
        },
      });
      expect(message(await apply(path, "one", map({ a: "2", b: "2" })))).toBe(
        'Apply failed with 2 conflicts: conflicts with "creator" using v1:\n- .data.a\n- .data.b',
      );
      expect(objectAt((await api().get(path)).body, "data")).toEqual({ a: "1", b: "1" });
    });

    it("not with who wrote the same", async () => {
      const { path, map } = await newMap({ a: "1" });
      const shared = await apply(path, "one", map({ a: "1", c: "1" }));
      expect(ownersIn(shared.body)).toEqual([
        { manager: "one", operation: "Apply", fieldsV1: { "f:data": { "f:a": {}, "f:c": {} } } },
        { manager: "creator", operation: "Update", fieldsV1: { "f:data": { ".": {}, "f:a": {} } } },
      ]);
      const other = await apply(path, "two", map({ c: "2" }));
      expect(message(other)).toBe('Apply failed with 1 conflict: conflict with "one": .data.c');
    });

    it("are overcome by force, and the fields change their owner", async () => {
      const { path, map } = await newMap({ a: "1", b: "1" });
      const forced = await apply(path, "one", map({ a: "2" }), true);
      expect(objectAt(forced.body, "data")).toEqual({ a: "2", b: "1" });
      expect(ownersIn(forced.body)).toEqual([
        { manager: "one", operation: "Apply", fieldsV1: { "f:data": { "f:a": {} } } },
        { manager: "creator", operation: "Update", fieldsV1: { "f:data": { ".": {}, "f:b": {} } } },
      ]);
    });

    it("with several at once, each with its fields", async () => {
      const { path, map } = await newMap({ a: "1" });
      await apply(path, "one", map({ b: "1" }));
      expect(message(await apply(path, "two", map({ a: "2", b: "2" })))).toBe(
        'Apply failed with 2 conflicts: conflicts with "creator" using v1:\n- .data.a\nconflicts with "one":\n- .data.b',
      );
    });

    it("within lists, by the key of the item", async () => {
      const pods = `${base}/pods`;
      await api().call("POST", `${pods}?fieldManager=creator`, { body: pod("conflicting") });
      const spec = { containers: [{ name: "main", image: "program:2" }] };
      const body = { apiVersion: "v1", kind: "Pod", metadata: { name: "conflicting" }, spec };
      expect(message(await apply(`${pods}/conflicting`, "one", body))).toBe(
        'Apply failed with 1 conflict: conflict with "creator" using v1: .spec.containers[name="main"].image',
      );
    });
  });

  describe("a field", () => {
    it("goes when whoever applied it names it no more, unless somebody else owns it", async () => {
      const { path, map } = await newMap({ kept: "1" });
      await apply(path, "one", map({ a: "1", b: "1", kept: "1" }));
      await apply(path, "two", map({ b: "1" }));
      const left = await apply(path, "one", map({}));
      expect(objectAt(left.body, "data")).toEqual({ kept: "1", b: "1" });
      expect(objectAt((await apply(path, "two", map())).body, "data")).toEqual({ kept: "1" });
    });

    it("is owned by who changes it in any other way", async () => {
      const { path, map } = await newMap({ a: "1" });
      await apply(path, "one", map({ b: "1" }));
      await api().patch(`${path}?fieldManager=two`, "merge", { data: { b: "2" } });
      const { body } = await api().get(path);
      expect(ownersIn(body)).toEqual([
        { manager: "creator", operation: "Update", fieldsV1: { "f:data": { ".": {}, "f:a": {} } } },
        { manager: "two", operation: "Update", fieldsV1: { "f:data": { "f:b": {} } } },
      ]);
      expect((await apply(path, "one", map({ b: "1" }))).code).toBe(409);
    });

    it("is forgotten with its record", async () => {
      const { path, map } = await newMap({ a: "1" });
      await api().patch(path, "json", [{ op: "replace", path: "/metadata/managedFields", value: [] }]);
      expect(at((await api().get(path)).body, "metadata", "managedFields")).toBeUndefined();
      expect(message(await apply(path, "one", map({ a: "2" })))).toBe(
        'Apply failed with 1 conflict: conflict with "before-first-apply" using v1: .data.a',
      );
    });
  });

  it("keeps the version when nothing changes, also for who only shares what is there", async () => {
    const { path, map } = await newMap({ a: "1" });
    const first = await apply(path, "one", map({ a: "1" }));
    expect(versionIn((await apply(path, "one", map({ a: "1" }))).body)).toBe(versionIn(first.body));
  });

  it("records who creates a pod with all that was filled in, and lists by their keys", async () => {
    const spec = {
      containers: [{ name: "a", image: "a:1", ports: [{ containerPort: 80 }], env: [{ name: "E", value: "1" }] }],
      volumes: [{ name: "v", emptyDir: {} }],
    };
    const body = { metadata: { name: "recorded", labels: { a: "b" }, finalizers: ["a/b"] }, spec };
    const answer = await api().call("POST", `${base}/pods?fieldManager=me`, { body });
    const [entry] = listAt(answer.body, "metadata", "managedFields");
    expect(entry).toMatchObject({ manager: "me", operation: "Update", apiVersion: "v1", fieldsType: "FieldsV1" });
    expect(at(entry, "fieldsV1")).toEqual({
      "f:metadata": { "f:finalizers": { ".": {}, 'v:"a/b"': {} }, "f:labels": { ".": {}, "f:a": {} } },
      "f:spec": {
        "f:containers": {
          'k:{"name":"a"}': {
            ".": {},
            "f:env": { ".": {}, 'k:{"name":"E"}': { ".": {}, "f:name": {}, "f:value": {} } },
            "f:image": {},
            "f:imagePullPolicy": {},
            "f:name": {},
            "f:ports": {
              ".": {},
              'k:{"containerPort":80,"protocol":"TCP"}': { ".": {}, "f:containerPort": {}, "f:protocol": {} },
            },
            "f:resources": {},
            "f:terminationMessagePath": {},
            "f:terminationMessagePolicy": {},
          },
        },
        "f:dnsPolicy": {},
        "f:enableServiceLinks": {},
        "f:restartPolicy": {},
        "f:schedulerName": {},
        "f:securityContext": {},
        "f:terminationGracePeriodSeconds": {},
        "f:volumes": { ".": {}, 'k:{"name":"v"}': { ".": {}, "f:emptyDir": {}, "f:name": {} } },
      },
    });
  });

  it("names the writer after its program when it does not say", async () => {
    made += 1;
    const answer = await api().post(`${base}/configmaps`, configMap(`map-${made}`));
    expect(textAt(listAt(answer.body, "metadata", "managedFields")[0], "manager")).toBe("unknown");
  });

  it("keeps the status apart", async () => {
    const pods = `${base}/pods`;
    await api().call("POST", `${pods}?fieldManager=creator`, { body: pod("reported") });
    const body = (status: object): object => ({
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: "reported" },
      status,
    });
    const path = `${pods}/reported/status`;
    const conditions = (status: string): object[] => [{ type: "Ready", status }];
    const first = await apply(path, "one", body({ phase: "Running", conditions: conditions("True") }), true);
    expect(first.code, first.text).toBe(200);
    const entry = listAt(first.body, "metadata", "managedFields").find((one) => textAt(one, "manager") === "one");
    expect(entry).toMatchObject({
      subresource: "status",
      fieldsV1: {
        "f:status": {
          "f:conditions": { 'k:{"type":"Ready"}': { ".": {}, "f:status": {}, "f:type": {} } },
          "f:phase": {},
        },
      },
    });
    const second = await apply(path, "two", body({ phase: "Failed", conditions: conditions("False") }));
    expect(message(second)).toBe(
      'Apply failed with 2 conflicts: conflicts with "one" with subresource "status":\n- .status.phase\n- .status.conditions[type="Ready"].status',
    );
  });

  describe("refuses", () => {
    it.each<[string, string, (map: (data?: object, more?: object) => object) => object, number, string]>([
      [
        "fields that the kind has not",
        "",
        (map) => ({ ...map({ a: "1" }), foo: 1 }),
        500,
        ".foo: field not declared in schema",
      ],
      [
        "values of another type",
        "",
        (map) => map({ a: 1 }),
        500,
        ".data.a: expected string, got &value.valueUnstructured{Value:1}",
      ],
      [
        "a record of owners",
        "",
        (map) => map({ a: "1" }, { managedFields: [] }),
        400,
        "metadata.managedFields must be nil",
      ],
      ["another kind", "", (map) => ({ ...map(), kind: "Secret" }), 400, "invalid object type: /v1, Kind=Secret"],
    ])("%s", async (_what, _query, body, code, expected) => {
      const { path, map } = await newMap({});
      const answer = await apply(path, "one", body(map));
      expect(answer.code, answer.text).toBe(code);
      expect(message(answer)).toContain(expected);
    });

    it("two items of one key", async () => {
      const containers = [1, 2].map(() => ({ name: "a", image: "a:1" }));
      const body = { apiVersion: "v1", kind: "Pod", metadata: { name: "twice" }, spec: { containers } };
      const answer = await apply(`${base}/pods/twice`, "one", body);
      expect(answer.code).toBe(500);
      expect(message(answer)).toContain('.spec.containers: duplicate entries for key [name="a"]');
    });

    it("force where nothing is applied, and an apply by nobody", async () => {
      const { path, map } = await newMap({});
      const forced = await api().patch(`${path}?force=true`, "merge", { data: {} });
      expect(message(forced)).toBe(
        'PatchOptions.meta.k8s.io "" is invalid: force: Forbidden: may not be specified for non-apply patch',
      );
      expect(message(await api().patch(path, "apply", map({})))).toBe(
        'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch',
      );
    });

    it("a uid where there is nothing", async () => {
      const body = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "absent", uid: "abc" } };
      const answer = await apply(`${base}/configmaps/absent`, "one", body);
      expect([answer.code, message(answer)]).toEqual([
        409,
        'Operation cannot be fulfilled on configmaps "absent": uid mismatch: the provided object specified uid abc, and no existing object was found',
      ]);
    });
  });

  describe("of custom resources", () => {
    const widget = (spec: object, name: string, more: object = {}): object => ({
      apiVersion: `${GROUP}/v1`,
      kind: "Widget",
      metadata: { name },
      spec,
      ...more,
    });

    it("merges lists as their schema says", async () => {
      const path = `${widgets}/lists`;
      const first = { set: ["a"], atomic: ["a"], map: [{ k: "x", v: 1 }], free: { a: { b: 1 } } };
      const made1 = await apply(path, "one", widget(first, "lists"));
      expect(made1.code, made1.text).toBe(201);
      expect(ownersIn(made1.body)).toEqual([
        {
          manager: "one",
          operation: "Apply",
          fieldsV1: {
            "f:spec": {
              "f:atomic": {},
              "f:free": { "f:a": { ".": {}, "f:b": {} } },
              "f:map": { 'k:{"k":"x"}': { ".": {}, "f:k": {}, "f:v": {} } },
              "f:set": { 'v:"a"': {} },
            },
          },
        },
      ]);
      const second = await apply(
        path,
        "two",
        widget({ set: ["b"], map: [{ k: "y" }], free: { a: { c: 2 } } }, "lists"),
      );
      expect(second.body).toMatchObject({
        spec: {
          size: "small",
          set: ["a", "b"],
          map: [
            { k: "x", v: 1, w: "d" },
            { k: "y", w: "d" },
          ],
          free: { a: { b: 1, c: 2 } },
        },
      });
      expect(message(await apply(path, "two", widget({ atomic: ["b"], map: [{ k: "x", v: 2 }] }, "lists")))).toBe(
        'Apply failed with 2 conflicts: conflicts with "one":\n- .spec.atomic\n- .spec.map[k="x"].v',
      );
      const third = await apply(path, "one", widget({ map: [{ k: "x" }] }, "lists"));
      expect(objectAt(third.body, "spec")).toEqual({
        size: "small",
        set: ["b"],
        map: [
          { k: "x", w: "d" },
          { k: "y", w: "d" },
        ],
        free: { a: { c: 2 } },
      });
    });

    it("records who creates them", async () => {
      const answer = await api().call("POST", `${widgets}?fieldManager=me`, {
        body: widget({ map: [{ k: "x" }] }, "created"),
      });
      expect(ownersIn(answer.body)).toEqual([
        {
          manager: "me",
          operation: "Update",
          fieldsV1: {
            "f:spec": {
              ".": {},
              "f:map": { ".": {}, 'k:{"k":"x"}': { ".": {}, "f:k": {}, "f:w": {} } },
              "f:size": {},
            },
          },
        },
      ]);
    });

    it("refuses fields that the schema has not", async () => {
      const answer = await apply(`${widgets}/unknown`, "one", widget({ nope: 1 }, "unknown"));
      expect(answer.code).toBe(500);
      expect(message(answer)).toContain(".spec.nope: field not declared in schema");
    });
  });
}

/** Who owns what, without times. */
function ownersIn(object: JsonObject): JsonObject[] {
  return listAt(object, "metadata", "managedFields").map((entry) =>
    mapEntries(entry as JsonObject, (key, value) =>
      ["manager", "operation", "fieldsV1", "subresource"].includes(key) ? value : undefined,
    ),
  );
}
