import { beforeAll, expect, it } from "vitest";
import { getText } from "../../src/apiserver/json.ts";
import type { Api } from "./api.ts";

/** The forms in which an object may be sent. */
export function describeBodies(api: () => Api): void {
  let maps: string;
  beforeAll(async () => {
    maps = `/api/v1/namespaces/${await api().namespace()}/configmaps`;
  });

  it("may be YAML", async () => {
    const raw = 'metadata: {name: yaml}\ndata:\n  text: "yes"\n  "1": one\n';
    const made = await api().call("POST", maps, { raw, type: "application/yaml" });
    expect(made.code, made.text).toBe(201);
    expect(made.body).toMatchObject({ kind: "ConfigMap", data: { text: "yes", "1": "one" } });
  });

  it("are refused when they are no YAML", async () => {
    const refused = await api().call("POST", maps, { raw: "metadata: {name: [", type: "application/yaml" });
    expect(refused.code).toBe(400);
    expect(getText(refused.body, "message")).toContain(
      "the object provided is unrecognized (must be of type ConfigMap): yaml: ",
    );
  });

  it("are refused when their content type is protobuf and their content is not", async () => {
    const refused = await api().call("POST", maps, { raw: "hi", type: "application/vnd.kubernetes.protobuf" });
    expect(refused.code).toBe(400);
    expect(getText(refused.body, "message")).toContain(
      "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]",
    );
  });

  it("are refused in any other form, with a list of the supported ones", async () => {
    const refused = await api().call("POST", maps, { raw: "hi", type: "text/plain" });
    expect(refused.code).toBe(415);
    expect(getText(refused.body, "message")).toBe(
      "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf",
    );
  });
}
