import { findFault } from "@muster/faults";
import { muster } from "@muster/proto";
import { shapes } from "@muster/proto/shapes";
import fc from "fast-check";
import { expect, it } from "vitest";
import { parseFields, parseMessage, toJson } from "./json-messages.ts";

const ORDER = "muster.provision.v1.Order";
const { Order } = muster.provision.v1;

it("is the same message again after JSON, for every message", () => {
  const scalar = (type: string): fc.Arbitrary<unknown> => {
    const names = shapes.enums[type];
    if (names !== undefined) return fc.constantFrom(...Object.keys(names.numbers));
    if (type === "google.protobuf.Timestamp")
      return fc.constantFrom("2026-01-31T12:00:00Z", "2026-01-31T12:00:00.000000001Z");
    if (type === "google.protobuf.Duration") return fc.constantFrom("0s", "3600s", "1.5s");
    if (type === "bool") return fc.boolean();
    if (type === "bytes") return fc.uint8Array().map((bytes) => Buffer.from(bytes).toString("base64"));
    if (type === "int32") return fc.integer();
    if (type === "uint32") return fc.nat();
    if (type === "uint64") return fc.nat(Number.MAX_SAFE_INTEGER);
    return fc.string();
  };
  const isPlain = (type: string): boolean => !(type in shapes.messages) || type.startsWith("google.");
  const plain = Object.entries(shapes.messages).filter(
    ([name, { fields }]) => !name.startsWith("google.") && Object.values(fields).every(({ type }) => isPlain(type)),
  );
  expect(plain.length).toBeGreaterThan(100);
  for (const [name, { fields }] of plain) {
    const record = fc.record(
      Object.fromEntries(
        Object.entries(fields).map(([field, { type, many }]) => {
          const one = scalar(type);
          const text = fc.string().filter((key) => key !== "__proto__");
          return [field, many === "list" ? fc.array(one) : many === "map" ? fc.dictionary(text, one) : one];
        }),
      ),
    );
    fc.assert(
      fc.property(record, (json) => {
        expect(toJson(name, parseFields(name, json))).toEqual(json);
      }),
      { numRuns: 5 },
    );
  }
});

it("equals the encoding of the generated code", () => {
  const json = {
    id: "1-1",
    data: "e30=",
    created: "2026-01-31T12:00:00.5Z",
    duration: "3600s",
    signatureFormat: "LEGACY",
  };
  const decoded = Order.decode(Order.encode(parseFields(ORDER, json)).finish());
  expect(toJson(ORDER, decoded)).toMatchObject(json);
});

it("has zero values, and omits unspecified enums", () => {
  expect(toJson("muster.session.v1.Component", new muster.session.v1.Component())).toEqual({
    ...{ name: "", pool: "", image: "", command: [], args: [], env: [], workingDir: "", readyPort: 0 },
    ...{ templateJson: "", shared: false, otherPools: [] },
  });
});

it.each([
  [{ created: "yesterday" }, "created"],
  [{ created: "2026-13-31T12:00:00Z" }, "created"],
  [{ duration: 5 }, "duration"],
  [{ data: "no base64!" }, "data"],
  [{ version: -1 }, "version"],
  [{ version: 1.5 }, "version"],
  [{ signatureFormat: 1 }, "signatureFormat"],
  [{ signatureFormat: "toString" }, "signatureFormat"],
  [{ toString: "x" }, "toString"],
  ["text", "body"],
])("refuses %o and names the field %s", (json, field) => {
  let thrown: unknown;
  try {
    parseFields(ORDER, json);
  } catch (error) {
    thrown = error;
  }
  expect(findFault(thrown)).toMatchObject({ code: "invalid_request", field });
});

it("reads answers of later versions with unknown fields and words, with the zero values of missing fields", () => {
  const { CancelSessionReply } = muster.session.v1;
  const later = { session: { name: "echo", later: { deep: [1] }, events: [{ kind: "LATER", atMs: 5 }] }, more: true };
  const { session } = parseMessage(CancelSessionReply, later);
  expect(session).toMatchObject({ name: "echo", revision: 0, events: [{ kind: 0, atMs: 5, description: "" }] });
});
