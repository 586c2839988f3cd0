import { describe, expect, it } from "vitest";
import { at, isObject, type JsonObject, getList, getText, getTexts } from "../../src/apiserver/json.ts";
import type { Api } from "./api.ts";

/** The documents by which clients find out what there is. */
export function describeDiscovery(api: () => Api): void {
  const GROUPS = ["coordination.k8s.io", "policy"];

  it("names its versions and groups", async () => {
    expect((await api().get("/api")).body).toMatchObject({ kind: "APIVersions", versions: ["v1"] });
    const groups = await api().get("/apis");
    expect(groups.body).toMatchObject({ kind: "APIGroupList", apiVersion: "v1" });
    expect(getList(groups.body, "groups").map((group) => getText(group, "name"))).toEqual(
      expect.arrayContaining(GROUPS),
    );
  });

  it.each(GROUPS)("describes the group %s", async (name) => {
    const served = { groupVersion: `${name}/v1`, version: "v1" };
    const group = await api().get(`/apis/${name}`);
    expect(group.body).toMatchObject({
      kind: "APIGroup",
      apiVersion: "v1",
      name,
      versions: [served],
      preferredVersion: served,
    });
  });

  // kubectl uses short names, verbs and categories; no client uses the hash of the storage.
  const SHARED = [
    "configmaps",
    "events",
    "namespaces",
    "namespaces/finalize",
    "namespaces/status",
    "nodes",
    "nodes/status",
    "pods",
    "pods/binding",
    "pods/eviction",
    "pods/log",
    "pods/status",
    "secrets",
    "serviceaccounts",
    "services",
    "services/status",
  ];
  const EXPECTED: Readonly<Record<string, string>> = {
    pods: "Pod pod po all true",
    nodes: "Node node no  false",
    namespaces: "Namespace namespace ns  false",
    services: "Service service svc all true",
    configmaps: "ConfigMap configmap cm  true",
    secrets: "Secret secret   true",
    serviceaccounts: "ServiceAccount serviceaccount sa  true",
    events: "Event event ev  true",
    "pods/status": "Pod    true",
    "pods/log": "Pod    true",
    "pods/binding": "Binding    true",
    "pods/eviction": "Eviction    true",
    "nodes/status": "Node    false",
    "services/status": "Service    true",
    "namespaces/status": "Namespace    false",
    "namespaces/finalize": "Namespace    false",
  };

  it("lists the resources of the core group with what kubectl needs", async () => {
    const list = await api().get("/api/v1");
    expect(list.body).toMatchObject({ kind: "APIResourceList", groupVersion: "v1" });
    const resources = new Map(
      getList(list.body, "resources")
        .filter(isObject)
        .map((one) => [getText(one, "name"), one] as const),
    );
    const found = SHARED.map((name) => [name, describeResource(resources.get(name) ?? {})] as const);
    expect(Object.fromEntries(found)).toEqual(EXPECTED);
    const verbs = (name: string): string[] => getTexts(resources.get(name), "verbs").sort();
    const all = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
    expect(verbs("pods")).toEqual(all);
    expect(verbs("namespaces")).toEqual(all.filter((verb) => verb !== "deletecollection"));
    expect(verbs("pods/status")).toEqual(["get", "patch", "update"]);
    expect(verbs("pods/binding")).toEqual(["create"]);
  });

  it("reports its version", async () => {
    const version = await api().get("/version");
    expect(version.body).toMatchObject({ major: "1" });
    expect(getText(version.body, "gitVersion")).toMatch(/^v1\.\d+/);
  });

  it("lists its paths", async () => {
    const root = await api().get("/");
    expect(getTexts(root.body, "paths")).toEqual(
      expect.arrayContaining(["/api/v1", "/apis/coordination.k8s.io/v1", "/version"]),
    );
  });

  it("has an OpenAPI document that announces field validation by the server", async () => {
    const index = await api().get("/openapi/v3");
    const path = getText(index.body, "paths", "api/v1", "serverRelativeURL");
    const document = await api().get(path);
    expect(document.code).toBe(200);
    const patch = at(document.body, "paths", "/api/v1/namespaces/{namespace}/pods/{name}", "patch");
    expect(getList(patch, "parameters").map((parameter) => getText(parameter, "name"))).toContain("fieldValidation");
    expect(at(patch, "x-kubernetes-group-version-kind")).toEqual({ group: "", version: "v1", kind: "Pod" });
  });

  describe("of a missing group or version", () => {
    it.each(["/apis/nowhere", "/apis/coordination.k8s.io/v9", "/api/v9"])("answers 404 for %s", async (path) => {
      expect((await api().get(path)).code).toBe(404);
    });
  });
}

function describeResource(resource: JsonObject): string {
  return [
    getText(resource, "kind"),
    getText(resource, "singularName"),
    getTexts(resource, "shortNames").join(),
    getTexts(resource, "categories").join(),
    JSON.stringify(at(resource, "namespaced") ?? null),
  ].join(" ");
}
