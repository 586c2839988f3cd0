import { beforeAll, describe, expect, it } from "vitest";
import { at, getList, getObject, getText } from "../../src/apiserver/json.ts";
import { type Api, listNames, getVersion } from "./api.ts";
import { install } from "./widgets.ts";

const GROUP = "custom.example.com";
const TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1";

const text = { type: "string" };
const SPEC = {
  size: { ...text, enum: ["small", "large"], description: "How large it is." },
  replicas: { type: "integer", format: "int32", minimum: 0, maximum: 10, default: 1 },
  ratio: { type: "number", minimum: 0 },
  name: { ...text, minLength: 2, maxLength: 5, pattern: "^[a-z]+$" },
  flag: { type: "boolean" },
  tags: { type: "array", maxItems: 3, minItems: 1, items: text, "x-kubernetes-list-type": "set" },
  ports: {
    type: "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name", "protocol"],
    items: {
      type: "object",
      required: ["name"],
      properties: { name: text, protocol: { ...text, default: "TCP" }, port: { type: "integer" } },
    },
  },
  labels: { type: "object", maxProperties: 2, additionalProperties: { ...text, maxLength: 3 } },
  port: { "x-kubernetes-int-or-string": true },
  free: { type: "object", "x-kubernetes-preserve-unknown-fields": true, properties: { known: text } },
  when: { ...text, format: "date-time" },
  nothing: { ...text, nullable: true },
  plain: text,
  list: { type: "array", items: { type: "object", properties: { a: text, b: { type: "integer", default: 5 } } } },
  nested: { type: "object", default: {}, properties: { deep: { ...text, default: "x" } } },
  any: { ...text, anyOf: [{ pattern: "^a" }, { minLength: 4 }] },
};
const STATUS = { replicas: { type: "integer" }, selector: text, phase: text };

/** Objects of a CustomResourceDefinition. */
export function describeCustom(api: () => Api): void {
  let widgets: string;
  let made = 0;
  beforeAll(async () => {
    await install(api(), {
      group: GROUP,
      plural: "widgets",
      kind: "Widget",
      names: { shortNames: ["wg"], categories: ["things"] },
      schema: {
        type: "object",
        description: "A widget.",
        required: ["spec"],
        properties: {
          spec: { type: "object", required: ["size"], properties: SPEC },
          status: { type: "object", properties: STATUS },
        },
      },
      version: {
        subresources: {
          status: {},
        },
        additionalPrinterColumns: [
          { name: "Size", type: "string", jsonPath: ".spec.size" },
          { name: "Replicas", type: "integer", jsonPath: ".spec.replicas" },
          { name: "Port", type: "integer", jsonPath: ".spec.ports[-1:].port", priority: 1 },
          { name: "When", type: "date", jsonPath: ".spec.when", description: "When it was." },
        ],
      },
    });
    widgets = `/apis/${GROUP}/v1/namespaces/${await api().namespace()}/widgets`;
  });
  const widget = (spec: object, more: object = {}, name = `widget-${(made += 1)}`): object => ({
    apiVersion: `${GROUP}/v1`,
    kind: "Widget",
    metadata: { name },
    spec,
    ...more,
  });
  const create = async (spec: object, more: object = {}): Promise<string> => {
    const answer = await api().post(widgets, widget(spec, more));
    expect(answer.code, answer.text).toBe(201);
    return `${widgets}/widget-${made}`;
  };

  it("are found by discovery", async () => {
    const group = await api().get(`/apis/${GROUP}`);
    expect(getList(group.body, "versions").map((one) => getText(one, "version"))).toEqual(["v1"]);
    expect(getText(group.body, "preferredVersion", "version")).toBe("v1");
    const resources = getList((await api().get(`/apis/${GROUP}/v1`)).body, "resources");
    expect(resources.map((one) => getText(one, "name"))).toEqual(["widgets", "widgets/status"]);
    expect(resources[0]).toMatchObject({
      kind: "Widget",
      namespaced: true,
      singularName: "widget",
      shortNames: ["wg"],
      categories: ["things"],
    });
  });

  it("get defaults, and a generation that counts changes of what is wanted", async () => {
    const path = await create({ size: "small", list: [{ a: "x" }], ports: [{ name: "http", port: 80 }] });
    const first = await api().get(path);
    expect(first.body).toMatchObject({
      metadata: { generation: 1 },
      spec: { replicas: 1, nested: { deep: "x" }, list: [{ a: "x", b: 5 }], ports: [{ protocol: "TCP" }] },
    });
    const changed = await api().patch(path, "merge", { spec: { size: "large" } });
    expect(at(changed.body, "metadata", "generation")).toBe(2);
    const labelled = await api().patch(path, "merge", { metadata: { labels: { a: "b" } } });
    expect(at(labelled.body, "metadata", "generation")).toBe(2);
    const reported = await api().patch(`${path}/status`, "merge", { status: { phase: "x" } });
    expect(at(reported.body, "metadata", "generation")).toBe(2);
    expect(getText(reported.body, "status", "phase")).toBe("x");
  });

  it("are listed with their kind and version", async () => {
    await create({ size: "small" });
    const list = await api().get(widgets);
    expect(list.body).toMatchObject({ kind: "WidgetList", apiVersion: `${GROUP}/v1` });
    expect(getList(list.body, "items")[0]).toMatchObject({ kind: "Widget", apiVersion: `${GROUP}/v1` });
  });

  it("get a generated name", async () => {
    const answer = await api().post(widgets, widget({ size: "small" }, { metadata: { generateName: "made-" } }));
    expect(getText(answer.body, "metadata", "name")).toMatch(/^made-[a-z0-9]{5}$/);
  });

  describe("lose what the schema does not have", () => {
    const body = (): object =>
      widget(
        { size: "small", unknown: 1, free: { known: "a", other: { x: 1 } }, list: [{ a: "x", zzz: 1 }] },
        { top: 1 },
      );

    it("with a warning for each field", async () => {
      const answer = await api().post(widgets, body());
      expect(answer.code).toBe(201);
      expect(at(answer.body, "top")).toBeUndefined();
      expect(getObject(answer.body, "spec")).toMatchObject({ free: { known: "a", other: { x: 1 } } });
      expect(at(answer.body, "spec", "unknown")).toBeUndefined();
      for (const field of ["spec.list[0].zzz", "spec.unknown", "top"]) {
        expect(answer.headers["warning"]).toContain(`unknown field \\"${field}\\"`);
      }
    });

    it("are refused with fieldValidation=Strict", async () => {
      const answer = await api().post(`${widgets}?fieldValidation=Strict`, body());
      expect(answer.code).toBe(400);
      expect(getText(answer.body, "message")).toBe(
        'Widget in version "v1" cannot be handled as a Widget: strict decoding error: unknown field "spec.list[0].zzz", unknown field "spec.unknown", unknown field "top"',
      );
    });

    it("in silence with fieldValidation=Ignore", async () => {
      const answer = await api().post(`${widgets}?fieldValidation=Ignore`, body());
      expect([answer.code, answer.headers["warning"]]).toEqual([201, undefined]);
    });

    it("also null where none is allowed", async () => {
      const path = await create({ size: "small", plain: null, nothing: null, replicas: null });
      expect(getObject((await api().get(path)).body, "spec")).toEqual({
        size: "small",
        nothing: null,
        replicas: 1,
        nested: { deep: "x" },
      });
    });
  });

  describe("are refused for", () => {
    it.each<[string, object, string]>([
      ["a missing field", {}, "spec.size: Required value"],
      [
        "a value that is none of those",
        { size: "huge" },
        'spec.size: Unsupported value: "huge": supported values: "small", "large"',
      ],
      [
        "a type",
        { size: "small", flag: "yes" },
        'spec.flag: Invalid value: "string": spec.flag in body must be of type boolean: "string"',
      ],
      [
        "a fraction",
        { size: "small", replicas: 1.5 },
        'spec.replicas: Invalid value: "float64": spec.replicas in body must be of type int32: "float64"',
      ],
      [
        "too much",
        { size: "small", replicas: 11 },
        "spec.replicas: Invalid value: 11: spec.replicas in body should be less than or equal to 10",
      ],
      [
        "too little",
        { size: "small", ratio: -0.5 },
        "spec.ratio: Invalid value: -0.5: spec.ratio in body should be greater than or equal to 0",
      ],
      [
        "a pattern",
        { size: "small", name: "ABC" },
        "spec.name: Invalid value: \"ABC\": spec.name in body should match '^[a-z]+$'",
      ],
      ["a long text", { size: "small", name: "toolong" }, "spec.name: Too long: may not be more than 5 bytes"],
      [
        "a short text",
        { size: "small", name: "a" },
        'spec.name: Invalid value: "a": spec.name in body should be at least 2 chars long',
      ],
      [
        "a long list",
        { size: "small", tags: ["a", "b", "c", "d"] },
        "spec.tags: Too many: 4: must have at most 3 items",
      ],
      [
        "a short list",
        { size: "small", tags: [] },
        "spec.tags: Invalid value: 0: spec.tags in body should have at least 1 items",
      ],
      ["a value that is twice in a set", { size: "small", tags: ["a", "a"] }, 'spec.tags[1]: Duplicate value: "a"'],
      [
        "an item that is twice in a map",
        { size: "small", ports: [{ name: "x" }, { name: "x", protocol: "TCP" }] },
        'spec.ports[1]: Duplicate value: {"name":"x","protocol":"TCP"}',
      ],
      ["a field of an item", { size: "small", ports: [{}] }, "spec.ports[0].name: Required value"],
      [
        "the value of a map",
        { size: "small", labels: { a: "1234" } },
        "spec.labels.a: Too long: may not be more than 3 bytes",
      ],
      [
        "too many keys",
        { size: "small", labels: { a: "1", b: "1", c: "1" } },
        "spec.labels: Too many: 3: must have at most 2 items",
      ],
      [
        "neither number nor text",
        { size: "small", port: true },
        'spec.port: Invalid value: "boolean": spec.port in body must be of type integer,string: "boolean"',
      ],
      [
        "a time",
        { size: "small", when: "tomorrow" },
        'spec.when: Invalid value: "tomorrow": spec.when in body must be of type date-time: "tomorrow"',
      ],
      ["nothing that fits", { size: "small", any: "b" }, '"spec.any" must validate at least one schema (anyOf)'],
    ])("%s", async (_what, spec, expected) => {
      const answer = await api().post(widgets, widget(spec));
      expect(answer.code, answer.text).toBe(422);
      expect(getText(answer.body, "message")).toContain(expected);
      expect(answer.body).toMatchObject({ reason: "Invalid", details: { group: GROUP, kind: "Widget" } });
    });

    it("a name", async () => {
      const answer = await api().post(widgets, widget({ size: "small" }, {}, "B@d"));
      expect(getText(answer.body, "message")).toContain(
        'metadata.name: Invalid value: "B@d": a lowercase RFC 1123 subdomain',
      );
    });

    it("a kind, a version, or none at all", async () => {
      const said = async (body: object): Promise<[number, string]> => {
        const answer = await api().post(widgets, body);
        return [answer.code, getText(answer.body, "message")];
      };
      expect(await said(widget({ size: "small" }, { kind: "Gadget" }, "x"))).toEqual([
        422,
        `Gadget.${GROUP} "x" is invalid: kind: Invalid value: "Gadget": must be Widget`,
      ]);
      expect(await said(widget({ size: "small" }, { apiVersion: `${GROUP}/v1beta1` }, "x"))).toEqual([
        400,
        `the API version in the data (${GROUP}/v1beta1) does not match the expected API version (${GROUP}/v1)`,
      ]);
      const [code, message] = await said({ metadata: { name: "x" }, spec: { size: "small" } });
      expect(code).toBe(400);
      expect(message).toContain("Object 'Kind' is missing in");
    });

    it("metadata of the wrong type", async () => {
      const answer = await api().post(
        widgets,
        widget({ size: "small" }, { metadata: { name: "x", labels: { a: 1 } } }),
      );
      expect(answer.code).toBe(400);
      expect(getText(answer.body, "message")).toContain(
        "cannot unmarshal number into Go struct field ObjectMeta.labels",
      );
    });
  });

  describe("change", () => {
    it("only with a version when they are replaced", async () => {
      const path = await create({ size: "small" });
      const name = path.split("/").at(-1) ?? "";
      const blind = await api().put(path, widget({ size: "large" }, {}, name));
      expect(blind.code).toBe(422);
      expect(getText(blind.body, "message")).toContain(
        "metadata.resourceVersion: Invalid value: 0: must be specified for an update",
      );
      const before = await api().get(path);
      const metadata = { name, resourceVersion: getVersion(before.body) };
      expect((await api().put(path, widget({ size: "large" }, { metadata }))).code).toBe(200);
      expect((await api().put(path, widget({ size: "small" }, { metadata }))).code).toBe(409);
      expect((await api().put(`${widgets}/absent`, widget({ size: "large" }, {}, "absent"))).code).toBe(404);
    });

    it("with three of the four patches", async () => {
      const path = await create({ size: "small" });
      expect((await api().patch(path, "merge", { spec: { size: "large" } })).code).toBe(200);
      const operations = [{ op: "replace", path: "/spec/size", value: "small" }];
      expect((await api().patch(path, "json", operations)).code).toBe(200);
      const strategic = await api().patch(path, "strategic", { spec: { size: "large" } });
      expect(strategic.code).toBe(415);
      expect(getText(strategic.body, "message")).toBe(
        "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
      );
      const wrong = await api().patch(path, "json", [{ op: "replace", path: "/spec/size", value: "huge" }]);
      expect([wrong.code, getText(wrong.body, "message")]).toEqual([
        422,
        `Widget.${GROUP} "${path.split("/").at(-1) ?? ""}" is invalid: spec.size: Unsupported value: "huge": supported values: "small", "large"`,
      ]);
    });

    it("their status by its own path alone", async () => {
      const path = await create({ size: "small" }, { status: { phase: "early" } });
      expect(at((await api().get(path)).body, "status")).toBeUndefined();
      const reported = await api().patch(`${path}/status`, "merge", {
        spec: { size: "large" },
        status: { phase: "y" },
      });
      expect(reported.body).toMatchObject({ spec: { size: "small" }, status: { phase: "y" } });
      const ignored = await api().patch(path, "merge", { status: { phase: "z" } });
      expect(getText(ignored.body, "status", "phase")).toBe("y");
      const wrong = await api().patch(`${path}/status`, "merge", { status: { phase: 1 } });
      expect(wrong.code).toBe(422);
      expect(getText(wrong.body, "message")).toContain(
        'status.phase: Invalid value: "integer": phase in body must be of type string: "integer"',
      );
    });

    it("and nothing is kept of a dry run", async () => {
      const path = await create({ size: "small" });
      const tried = await api().patch(`${path}?dryRun=All`, "merge", { spec: { size: "large" } });
      expect(getText(tried.body, "spec", "size")).toBe("large");
      expect(getText((await api().get(path)).body, "spec", "size")).toBe("small");
    });
  });

  it("are selected by labels", async () => {
    await create({ size: "large" }, { metadata: { name: "chosen", labels: { chosen: "yes", tier: "a" } } });
    const names = async (query: string): Promise<string[]> => listNames((await api().get(`${widgets}?${query}`)).body);
    expect(await names("labelSelector=chosen,tier in (a,b),tier notin (c)")).toEqual(["chosen"]);
    const refused = await api().get(`${widgets}?fieldSelector=spec.name%3Dx`);
    expect(refused.code).toBe(400);
  });

  it("are printed in the columns of their version", async () => {
    const when = new Date(Date.now() - 3 * 3_600_000).toISOString();
    const path = await create({ size: "small", ports: [{ name: "http", port: 80 }], when });
    const printed = await api().get(path, TABLE);
    const columns = getList(printed.body, "columnDefinitions");
    expect(columns.map((one) => [getText(one, "name"), getText(one, "type"), at(one, "priority")])).toEqual([
      ["Name", "string", 0],
      ["Size", "string", 0],
      ["Replicas", "integer", 0],
      ["Port", "integer", 1],
      ["When", "date", 0],
    ]);
    expect(columns.map((one) => getText(one, "description")).slice(1, 2)).toEqual([
      "Custom resource definition column (in JSONPath format): .spec.size",
    ]);
    const name = path.split("/").at(-1);
    expect(at(getList(printed.body, "rows")[0], "cells")).toEqual([name, "small", 1, 80, "3h"]);
    const group = `plain.${GROUP}`;
    await install(api(), { group, plural: "plains", kind: "Plain", schema: { type: "object" } });
    const plain = await api().get(`/apis/${group}/v1/plains`, TABLE);
    expect(getList(plain.body, "columnDefinitions").map((one) => getText(one, "name"))).toEqual(["Name", "Age"]);
  });

  it("are watched", async () => {
    const path = await create({ size: "small" });
    const name = path.split("/").at(-1) ?? "";
    const from = getVersion((await api().get(widgets)).body);
    await using watch = await api().watch(
      `${widgets}?watch=1&resourceVersion=${from}&fieldSelector=metadata.name%3D${name}`,
    );
    await api().patch(path, "merge", { spec: { size: "large" } });
    await api().delete(path);
    const events = await watch.take(2);
    expect(events.map(({ type, object }) => [type, getText(object, "apiVersion")])).toEqual([
      ["MODIFIED", `${GROUP}/v1`],
      ["DELETED", `${GROUP}/v1`],
    ]);
  });

  it("are deleted, with a status as the answer", async () => {
    const path = await create({ size: "small" });
    const deleted = await api().delete(path);
    expect(deleted.body).toMatchObject({
      kind: "Status",
      status: "Success",
      details: { kind: "widgets", group: GROUP },
    });
    expect((await api().get(path)).code).toBe(404);
  });
}
