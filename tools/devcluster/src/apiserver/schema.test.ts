import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { JsonObject } from "./json.ts";
import { decodeObject as decodeKind } from "./schema.ts";
import { resources } from "./resources.ts";

const decode = (kind: string, body: JsonObject, wrong: (because: string) => never): ReturnType<typeof decodeKind> =>
  decodeKind({ apiVersion: "v1", kind }, body, wrong);

const refuse = (because: string): never => {
  throw new Error(because);
};

describe("decoding", () => {
  it("knows the fields of every resource, metadata among them", () => {
    const metadata = { name: "a", labels: { b: "c" } };
    for (const { kind, decode: take } of resources) {
      expect(take({ kind, metadata, no: 1 }, refuse), kind).toEqual({
        object: { kind, metadata },
        warnings: ['unknown field "no"'],
      });
    }
  });

  it("drops unknown fields, and names each with its place, in the order of the document", () => {
    const body = { spec: { containers: [{ name: "a", no: 1 }, { alsoNo: 1 }], nor: 1 }, neither: {} };
    expect(decode("Pod", body, refuse)).toEqual({
      object: { spec: { containers: [{ name: "a" }, {}] } },
      warnings: ["spec.containers[0].no", "spec.containers[1].alsoNo", "spec.nor", "neither"].map(
        (field) => `unknown field "${field}"`,
      ),
    });
  });

  it("leaves null out", () => {
    expect(decode("Pod", { metadata: { creationTimestamp: null, labels: null }, spec: null }, refuse).object).toEqual({
      metadata: {},
    });
  });

  it.each<[string, JsonObject, string]>([
    [
      "Pod",
      { metadata: { labels: [] } },
      "cannot unmarshal array into Go struct field ObjectMeta.metadata.labels of type map[string]string",
    ],
    [
      "Pod",
      { spec: { hostNetwork: "yes" } },
      "cannot unmarshal string into Go struct field PodSpec.spec.hostNetwork of type bool",
    ],
    [
      "Pod",
      { spec: { priority: 1.5 } },
      "cannot unmarshal number 1.5 into Go struct field PodSpec.spec.priority of type int32",
    ],
    [
      "Pod",
      { spec: { priority: 2 ** 31 } },
      "cannot unmarshal number into Go struct field PodSpec.spec.priority of type int32",
    ],
    ["Secret", { data: { a: "not base64!" } }, "illegal base64 data"],
    ["Pod", { metadata: { creationTimestamp: "yesterday" } }, 'cannot parse "yesterday"'],
    ["Service", { spec: { ports: [{ targetPort: true }] } }, "cannot unmarshal bool"],
  ])("refuses for a %s the body %j", (model, body, because) => {
    expect(() => decode(model, body, refuse)).toThrow(because);
  });

  it("accepts its own output, unchanged and without a warning, for any JSON", () => {
    const noise = fc.object({
      key: fc.constantFrom("metadata", "spec", "status", "containers", "name", "labels", "env", "limits", "__proto__"),
      maxDepth: 5,
    });
    fc.assert(
      fc.property(noise, (body) => {
        let first;
        try {
          first = decode("Pod", JSON.parse(JSON.stringify(body)) as JsonObject, refuse);
        } catch {
          return;
        }
        expect(decode("Pod", first.object, refuse)).toEqual({ object: first.object, warnings: [] });
      }),
    );
  });
});
