import { expect, it } from "vitest";
import { at, isList, isObject, getObject, getText } from "../../src/apiserver/json.ts";
import { definitions } from "../../src/apiserver/definitions.ts";
import type { Api } from "./api.ts";

const DOCUMENTS = [
  "api/v1",
  "apis/coordination.k8s.io/v1",
  "apis/authorization.k8s.io/v1",
  "apis/rbac.authorization.k8s.io/v1",
];

/** The OpenAPI documents of the kinds. */
export function describeOpenApi(api: () => Api): void {
  it("lists a document for each group and version", async () => {
    const index = await api().get("/openapi/v3");
    for (const document of DOCUMENTS) {
      expect(getText(index.body, "paths", document, "serverRelativeURL")).toMatch(`/openapi/v3/${document}`);
    }
  });

  it("describes kinds as the schemas that the embedded server is built from", async () => {
    const served = await Promise.all(DOCUMENTS.map((document) => api().get(`/openapi/v3/${document}`)));
    const schemas = Object.assign({}, ...served.map(({ body }) => getObject(body, "components", "schemas"))) as object;
    const shared = Object.entries(definitions()).filter(([name]) => Object.hasOwn(schemas, name));
    expect(shared.length).toBeGreaterThan(150);
    const known = Object.fromEntries(shared);
    // The groups that can be deleted from are as many as the server has.
    const { "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions": _, ...rest } = known;
    expect(schemas).toMatchObject(rest);
  });

  it("lists the parameters of a patch", async () => {
    const { body } = await api().get("/openapi/v3/api/v1");
    const patch = at(body, "paths", "/api/v1/namespaces/{namespace}/configmaps/{name}", "patch");
    const parameters = isObject(patch) && isList(patch["parameters"]) ? patch["parameters"] : [];
    expect(parameters.map((one) => getText(one, "name"))).toEqual(
      expect.arrayContaining(["dryRun", "fieldManager", "fieldValidation", "force"]),
    );
    expect(at(patch, "x-kubernetes-group-version-kind")).toEqual({ group: "", kind: "ConfigMap", version: "v1" });
  });
}
