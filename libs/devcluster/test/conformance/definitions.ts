import { until } from "@muster/testkit";
import { beforeAll, describe, expect, it } from "vitest";
import { at, listAt, textAt } from "../../src/apiserver/json.ts";
import type { Api } from "./api.ts";
import { conditionIn, type Definition, definition, DEFINITIONS, install, withSpec } from "./widgets.ts";

const GROUP = "definitions.example.com";
const object = (properties: object = {}, more: object = {}): object => ({ type: "object", properties, ...more });

/** CustomResourceDefinitions themselves: what is accepted, what they report, how they end. */
export function describeDefinitions(api: () => Api): void {
  let namespace: string;
  beforeAll(async () => {
    namespace = await api().namespace();
  });

  it("fill in names, and report that these are accepted and served", async () => {
    const made = await install(api(), { group: GROUP, plural: "firsts", kind: "First", schema: withSpec({}) });
    expect(made.body).toMatchObject({
      metadata: { generation: 1 },
      spec: { conversion: { strategy: "None" }, names: { singular: "first", listKind: "FirstList" } },
      status: { storedVersions: ["v1"], acceptedNames: { plural: "", kind: "" } },
    });
    const { body } = await api().get(`${DEFINITIONS}/firsts.${GROUP}`);
    expect(conditionIn(body, "NamesAccepted")).toBe("True NoConflicts");
    expect(conditionIn(body, "Established")).toBe("True InitialNamesAccepted");
    expect(at(body, "status", "acceptedNames")).toEqual({
      plural: "firsts",
      singular: "first",
      kind: "First",
      listKind: "FirstList",
    });
  });

  it("do not get names that another has", async () => {
    await install(api(), { group: GROUP, plural: "owners", kind: "Owner", schema: object() });
    const second = { group: GROUP, plural: "thieves", kind: "Owner", schema: object() };
    expect((await api().post(DEFINITIONS, definition(second))).code).toBe(201);
    const path = `${DEFINITIONS}/thieves.${GROUP}`;
    await until("names were looked at", async () => conditionIn((await api().get(path)).body, "Established") !== "");
    const { body } = await api().get(path);
    expect(conditionIn(body, "NamesAccepted")).toBe("False ListKindConflict");
    expect(conditionIn(body, "Established")).toBe("False NotAccepted");
    expect((await api().get(`/apis/${GROUP}/v1/thieves`)).code).toBe(404);
  });

  it("keep their scope and kind once they are served, and take other short names", async () => {
    await install(api(), { group: GROUP, plural: "fixed", kind: "Fixed", schema: object() });
    const path = `${DEFINITIONS}/fixed.${GROUP}`;
    const refused = async (spec: object): Promise<string> => {
      const answer = await api().patch(path, "merge", { spec });
      expect(answer.code).toBe(422);
      return textAt(answer.body, "message");
    };
    expect(await refused({ scope: "Cluster" })).toContain('spec.scope: Invalid value: "Cluster": field is immutable');
    expect(await refused({ names: { kind: "Other" } })).toContain("spec.names.kind");
    expect((await api().patch(path, "merge", { spec: { names: { shortNames: ["fx"] } } })).code).toBe(200);
    await until("the short name is served", async () => {
      const resources = listAt((await api().get(`/apis/${GROUP}/v1`)).body, "resources");
      const found = resources.find((one) => textAt(one, "name") === "fixed");
      return listAt(found, "shortNames").includes("fx");
    });
  });

  it("end once their objects have, and take no new ones meanwhile", async () => {
    await install(api(), { group: GROUP, plural: "ending", kind: "Ending", schema: object() });
    const objects = `/apis/${GROUP}/v1/namespaces/${namespace}/ending`;
    const body = (name: string, finalizers: string[]): object => ({
      apiVersion: `${GROUP}/v1`,
      kind: "Ending",
      metadata: { name, finalizers },
    });
    expect((await api().post(objects, body("held", ["a.b/c"]))).code).toBe(201);
    expect((await api().post(objects, body("free", []))).code).toBe(201);
    const deleted = await api().delete(`${DEFINITIONS}/ending.${GROUP}`);
    expect(conditionIn(deleted.body, "Terminating")).toBe("True InstanceDeletionPending");
    expect(listAt(deleted.body, "metadata", "finalizers")).toEqual(["customresourcecleanup.apiextensions.k8s.io"]);
    await until("only the held object is left", async () => {
      const left = listAt((await api().get(objects)).body, "items");
      return left.length === 1 && textAt(left[0], "metadata", "deletionTimestamp") !== "";
    });
    const late = await api().post(objects, body("late", []));
    expect(late.code).toBe(403);
    expect(textAt(late.body, "message")).toBe(
      `ending.${GROUP} "late" is forbidden: create not allowed while custom resource definition is terminating`,
    );
    await api().patch(`${objects}/held`, "merge", { metadata: { finalizers: null } });
    await until("the definition is gone", async () => (await api().get(`${DEFINITIONS}/ending.${GROUP}`)).code === 404);
    await until("it is served no more", async () => (await api().get(objects)).code === 404);
  });

  describe("are refused with what is wrong:", () => {
    const base: Definition = { group: GROUP, plural: "wrongs", kind: "Wrong", schema: object() };
    const schemaOf = (properties: object, more: object = {}): Partial<Definition> => ({
      schema: object(properties, more),
    });
    const at0 = "spec.validation.openAPIV3Schema";
    const rules = (...list: object[]): Partial<Definition> =>
      schemaOf({ a: { type: "integer", "x-kubernetes-validations": list } });

    it.each<[string, Partial<Definition>, string]>([
      [
        "a scope",
        { scope: "Other" },
        'spec.scope: Unsupported value: "Other": supported values: "Cluster", "Namespaced"',
      ],
      [
        "a group without a dot",
        { group: "example" },
        'spec.group: Invalid value: "example": should be a domain with at least one dot',
      ],
      ["no schema", { version: { schema: undefined } }, "spec.versions[0].schema.openAPIV3Schema: Required value"],
      [
        "a root of another type",
        { schema: { type: "string" } },
        `${at0}.type: Invalid value: "string": must be object at the root`,
      ],
      ["a root without a type", { schema: {} }, `${at0}.type: Required value: must not be empty at the root`],
      [
        "a field without a type",
        schemaOf({ a: {} }),
        `${at0}.properties[a].type: Required value: must not be empty for specified object fields`,
      ],
      [
        "a type",
        schemaOf({ a: { type: "wrong" } }),
        `${at0}.properties[a].type: Unsupported value: "wrong": supported values: "array", "boolean", "integer", "number", "object", "string"`,
      ],
      [
        "a list of nothing",
        schemaOf({ a: { type: "array" } }),
        `${at0}.properties[a].items: Required value: must be specified`,
      ],
      [
        "named and other fields",
        schemaOf({ a: object({ b: { type: "string" } }, { additionalProperties: { type: "string" } }) }),
        `${at0}.properties[a].additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive`,
      ],
      [
        "unique items",
        schemaOf({ a: { type: "array", items: { type: "string" }, uniqueItems: true } }),
        `${at0}.properties[a].uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic`,
      ],
      ["a reference", schemaOf({ a: { $ref: "#/x" } }), `${at0}.properties[a].$ref: Forbidden: $ref is not supported`],
      [
        "a default of another type",
        schemaOf({ a: { type: "string", default: 1 } }),
        `${at0}.properties[a].default: Invalid value: "integer":  in body must be of type string: "integer"`,
      ],
      [
        "a map list without keys",
        schemaOf({ a: { type: "array", items: object(), "x-kubernetes-list-type": "map" } }),
        `${at0}.properties[a].x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map`,
      ],
      [
        "a key that may be absent",
        schemaOf({
          a: {
            type: "array",
            items: object({ k: { type: "string" } }),
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
          },
        }),
        `${at0}.properties[a].items.properties[k].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property`,
      ],
      [
        "a pattern",
        schemaOf({ a: { type: "string", pattern: "(" } }),
        `${at0}.properties[a].pattern: Invalid value: "(": must be a valid regular expression, but isn't`,
      ],
      [
        "a type in a choice",
        schemaOf({ a: { type: "string", anyOf: [{ type: "integer" }] } }),
        `${at0}.properties[a].anyOf[0].type: Forbidden: must be empty to be structural`,
      ],
      [
        "metadata of its own",
        schemaOf({ metadata: object({ labels: object() }) }),
        `${at0}.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified`,
      ],
      [
        "no storage version",
        { version: { storage: false } },
        "must have exactly one version marked as storage version",
      ],
      [
        "a version",
        { versions: [{ name: "V_2", served: true, storage: false, schema: { openAPIV3Schema: object() } }] },
        'spec.versions[1].name: Invalid value: "V_2": a DNS-1035 label must consist of',
      ],
      [
        "one kind for items and lists",
        { names: { listKind: "Wrong" } },
        'spec.names.listKind: Invalid value: "Wrong": kind and listKind may not be the same',
      ],
      [
        "a short name",
        { names: { shortNames: ["A"] } },
        'spec.names.shortNames[0]: Invalid value: "A": a DNS-1035 label',
      ],
      [
        "columns",
        {
          version: {
            additionalPrinterColumns: [
              { name: "a", type: "wrong", jsonPath: ".a" },
              { name: "b", type: "string", jsonPath: "a" },
            ],
          },
        },
        '[spec.additionalPrinterColumns[0].type: Invalid value: "wrong": must be one of boolean,date,integer,number,string, spec.additionalPrinterColumns[1].JSONPath: Invalid value: "a": must be a simple json path starting with .]',
      ],
      [
        "paths of replicas",
        { version: { subresources: { scale: { specReplicasPath: ".a", statusReplicasPath: ".b" } } } },
        '[spec.subresources.scale.specReplicasPath: Invalid value: ".a": should be a json path under .spec, spec.subresources.scale.statusReplicasPath: Invalid value: ".b": should be a json path under .status]',
      ],
      [
        "a field to select by",
        { version: { selectableFields: [{ jsonPath: ".spec.x" }] } },
        'spec.selectableFields[0].jsonPath: Invalid value: ".spec.x": is an invalid path: does not refer to a valid field',
      ],
      [
        "a protected group",
        { group: "x.k8s.io" },
        'metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have approval annotation "api-approved.kubernetes.io"',
      ],
      [
        "a rule that says nothing",
        rules({ rule: "", message: "x" }),
        `${at0}.properties[a].x-kubernetes-validations[0].rule: Required value: rule is not specified`,
      ],
      [
        "a reason of a rule",
        rules({ rule: "self > 0", reason: "Wrong" }),
        `${at0}.properties[a].x-kubernetes-validations[0].reason: Unsupported value: "Wrong"`,
      ],
      [
        "a path of a rule",
        rules({ rule: "self > 0", fieldPath: ".x" }),
        `${at0}.properties[a].x-kubernetes-validations[0].fieldPath: Invalid value: ".x": must be a valid path`,
      ],
      ["a message of two lines", rules({ rule: "self > 0", message: "a\nb" }), "must not contain line breaks"],
      [
        "a rule that cannot be read",
        rules({ rule: "self >" }),
        `${at0}.properties[a].x-kubernetes-validations[0].rule: Invalid value: {"Rule":"self \\u003e","Message":""`,
      ],
      ["a rule about what is not there", rules({ rule: "self.x > 1" }), "compilation failed: "],
      ["a rule that compares apples", rules({ rule: 'self == "a"' }), "compilation failed: "],
      ["a rule that says neither yes nor no", rules({ rule: "self + 1" }), "cel expression must evaluate to a bool"],
      [
        "a message that is no text",
        rules({ rule: "self > 0", messageExpression: "1" }),
        "messageExpression must evaluate to a string",
      ],
    ])("%s", async (_what, more, expected) => {
      const answer = await api().post(`${DEFINITIONS}?dryRun=All`, definition({ ...base, ...more }));
      expect(answer.code, answer.text).toBe(422);
      expect(textAt(answer.body, "message")).toContain(expected);
    });

    it("a name that is not made of the plural and the group", async () => {
      const answer = await api().post(`${DEFINITIONS}?dryRun=All`, {
        ...definition(base),
        metadata: { name: "wrong" },
      });
      expect(textAt(answer.body, "message")).toContain(
        'metadata.name: Invalid value: "wrong": must be spec.names.plural+"."+spec.group',
      );
    });
  });
}
