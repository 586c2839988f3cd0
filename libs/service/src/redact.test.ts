import { expect, it } from "vitest";
import { redactFields } from "./redact.ts";

it.each<[string, object, object]>([
  ["a field", { token: "hush", a: 1 }, { token: "[Redacted]", a: 1 }],
  ["a field that is an object", { secret: { a: "hush" } }, { secret: "[Redacted]" }],
  ["a field of an object", { a: { seed: "hush", b: 1 } }, { a: { seed: "[Redacted]", b: 1 } }],
  ["a field two objects deep", { a: { b: { nkey: "hush" } } }, { a: { b: { nkey: "[Redacted]" } } }],
  [
    "a field of an item of a list",
    { a: [{ b: 1 }, { password: "hush" }] },
    { a: [{ b: 1 }, { password: "[Redacted]" }] },
  ],
])("replaces %s", (_where, fields, expected) => {
  const before = structuredClone(fields);
  expect(redactFields(fields)).toEqual(expected);
  expect(fields).toEqual(before);
});

it("copies only the objects around a secret", () => {
  const plain = { session: "a", steps: [{ kind: "accept" }], none: undefined, empty: null, bytes: new Uint8Array(3) };
  expect(redactFields(plain)).toBe(plain);
  const beside = { b: 1 };
  expect(redactFields({ beside, access: { token: "hush" } })).toMatchObject({ access: { token: "[Redacted]" } });
  expect((redactFields({ beside, token: "hush" }) as { beside: object }).beside).toBe(beside);
});
