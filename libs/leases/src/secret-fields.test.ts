import { expect, it } from "vitest";
import { findUnsealed, mapSecrets, SEALED_PREFIX } from "./secret-fields.ts";

const SEALED = `${SEALED_PREFIX}x`;

it.each<[string, "order" | "result", string, object, object]>([
  [
    "each variable of a container",
    "order",
    "container",
    { env: { A: "a" }, secret_env: { B: "b", C: "", "D.E": "d" } },
    { env: { A: "a" }, secret_env: { B: "<secret_env.B b>", C: "", "D.E": "<secret_env.D.E d>" } },
  ],
  ["the password of a store", "order", "zdb", { size: 1, password: "p" }, { size: 1, password: "<password p>" }],
  ["what is no text", "order", "zdb", { password: 7 }, { password: "<password 7>" }],
  ["what is no object", "order", "container", { secret_env: "s" }, { secret_env: "<secret_env s>" }],
  ["the kubeconfig of a result", "result", "kubernetes", { kubeconfig: "k" }, { kubeconfig: "<kubeconfig k>" }],
])("passes %s to the mapper, and no other text", (_what, kind, type, before, after) => {
  const mapped = mapSecrets(
    { kind, type, data: JSON.stringify(before) },
    (value, field) => `<${field} ${String(value)}>`,
  );
  expect(JSON.parse(mapped)).toEqual(after);
});

it.each(['{ "size": 1.0 }', '{"password" : ""}', "no JSON", "null", "[7]"])(
  "leaves %s as it is, to the byte",
  (data) => {
    expect(mapSecrets({ kind: "order", type: "zdb", data }, (value) => (isText(value) ? "x" : value))).toBe(data);
    expect(mapSecrets({ kind: "order", type: "debug", data: '{"password":"p"}' }, () => "x")).toBe('{"password":"p"}');
  },
);

it("names the first secret that is not sealed", () => {
  const found = (data: object) => findUnsealed("order", { type: "container", data: JSON.stringify(data) });
  expect(found({ secret_env: { A: SEALED, B: "b" } })).toBe("secret_env.B");
  expect(found({ secret_env: { A: 7 } })).toBe("secret_env.A");
  expect(found({ secret_env: ["a"] })).toBe("secret_env");
  expect(found({ secret_env: { A: SEALED, B: "" } })).toBeUndefined();
  expect(found({})).toBeUndefined();
});

it("names the data itself if it is not JSON, because it may contain a secret", () => {
  expect(findUnsealed("order", { type: "container", data: '{"secret_env":{"T":"plain"},}' })).toBe("");
  expect(findUnsealed("order", { type: "debug", data: "no JSON" })).toBeUndefined();
});

function isText(value: unknown): boolean {
  return typeof value === "string";
}
