import { until } from "@muster/testkit";
import { beforeAll, describe, expect, it } from "vitest";
import { at, getList, getText } from "../../src/apiserver/json.ts";
import type { Api } from "./api.ts";
import { conditionIn, type Definition, definition, DEFINITIONS, install, withSpec } from "./widgets.ts";

const GROUP = "definitions.example.com";
const object = (): object => ({ type: "object", properties: {} });

/** CustomResourceDefinitions themselves: which are accepted, their reports, their end. */
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
      return getText(answer.body, "message");
    };
    expect(await refused({ scope: "Cluster" })).toContain('spec.scope: Invalid value: "Cluster": field is immutable');
    expect(await refused({ names: { kind: "Other" } })).toContain("spec.names.kind");
    expect((await api().patch(path, "merge", { spec: { names: { shortNames: ["fx"] } } })).code).toBe(200);
    await until("the short name is served", async () => {
      const resources = getList((await api().get(`/apis/${GROUP}/v1`)).body, "resources");
      const found = resources.find((one) => getText(one, "name") === "fixed");
      return getList(found, "shortNames").includes("fx");
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
    expect(getList(deleted.body, "metadata", "finalizers")).toEqual(["customresourcecleanup.apiextensions.k8s.io"]);
    await until("only the held object is left", async () => {
      const left = getList((await api().get(objects)).body, "items");
      return left.length === 1 && getText(left[0], "metadata", "deletionTimestamp") !== "";
    });
    const late = await api().post(objects, body("late", []));
    expect(late.code).toBe(403);
    expect(getText(late.body, "message")).toBe(
      `ending.${GROUP} "late" is forbidden: create not allowed while custom resource definition is terminating`,
    );
    await api().patch(`${objects}/held`, "merge", { metadata: { finalizers: null } });
    await until("the definition is gone", async () => (await api().get(`${DEFINITIONS}/ending.${GROUP}`)).code === 404);
    await until("it is served no more", async () => (await api().get(objects)).code === 404);
  });

  describe("are refused with what is wrong:", () => {
    const base: Definition = { group: GROUP, plural: "wrongs", kind: "Wrong", schema: object() };

    it.each<[string, Partial<Definition>, string]>([
      [
        "a scope",
        { scope: "Other" },
        'spec.scope: Unsupported value: "Other": supported values: "Cluster", "Namespaced"',
      ],
      ["no schema", { version: { schema: undefined } }, "spec.versions[0].schema.openAPIV3Schema: Required value"],
      [
        "no storage version",
        { version: { storage: false } },
        "must have exactly one version marked as storage version",
      ],
    ])("%s", async (_what, more, expected) => {
      const answer = await api().post(`${DEFINITIONS}?dryRun=All`, definition({ ...base, ...more }));
      expect(answer.code, answer.text).toBe(422);
      expect(getText(answer.body, "message")).toContain(expected);
    });

    it("a name that does not consist of the plural and the group", async () => {
      const answer = await api().post(`${DEFINITIONS}?dryRun=All`, {
        ...definition(base),
        metadata: { name: "wrong" },
      });
      expect(getText(answer.body, "message")).toContain(
        'metadata.name: Invalid value: "wrong": must be spec.names.plural+"."+spec.group',
      );
    });
  });
}
