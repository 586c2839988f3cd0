import fc from "fast-check";
import { expect, it } from "vitest";
import { buildEndBytes, buildOrderBytes, buildRenewalBytes, buildResultBytes } from "./build-signed-bytes.ts";

const text = fc.string({ unit: fc.constantFrom("a", "1", "\0", "é"), maxLength: 2 });
const ns = fc.bigInt({ min: 0n, max: 1n });
const number = fc.nat({ max: 1 });
const part = { id: text, engine: text, user: text };
const state = fc.constantFrom("error" as const, "ok" as const, "deleted" as const);
const order = fc.record({
  ...part,
  type: text,
  data: text,
  createdNs: ns,
  durationNs: ns,
  reference: fc.option(text.filter(Boolean), { nil: undefined }),
  version: number,
});
const renewal = fc.record({ ...part, orderedNs: ns, expiresAtNs: ns, sequence: number });
const end = fc.record({ ...part, orderedNs: ns, createdNs: ns });
const result = fc.record({ id: text, type: text, createdNs: ns, state, message: text, data: text });

const anything = fc.oneof(
  order.map((content) => ({ domain: "order", content, bytes: buildOrderBytes(content) })),
  renewal.map((content) => ({
    domain: "renewal",
    content,
    bytes: buildRenewalBytes(content, { createdNs: content.orderedNs }),
  })),
  end.map((content) => ({ domain: "end", content, bytes: buildEndBytes(content, { createdNs: content.orderedNs }) })),
  result.map((content) => ({ domain: "result", content, bytes: buildResultBytes(content) })),
);

/** Serialises every signed field, so that two contents differ if a field does. */
const keyOf = ({ domain, content }: { domain: string; content: object }): string =>
  JSON.stringify([domain, content], (_name, field: unknown) =>
    typeof field === "bigint" ? `${String(field)}n` : field,
  );

it("builds equal bytes only for contents of one domain that are equal in every field", () => {
  fc.assert(
    fc.property(fc.array(anything, { minLength: 2, maxLength: 200 }), (contents) => {
      const keys = new Map<string, string>();
      for (const each of contents) {
        const bytes = Buffer.from(each.bytes).toString("hex");
        expect(keys.get(bytes) ?? keyOf(each)).toBe(keyOf(each));
        keys.set(bytes, keyOf(each));
      }
      expect(keys.size).toBe(new Set(contents.map(keyOf)).size);
    }),
  );
});

it("encodes its domain, and each field with its length", () => {
  const bytes = buildEndBytes({ id: "1-1", engine: "main", user: "u", createdNs: 2n ** 53n + 1n }, { createdNs: 7n });
  const fields = ["muster-lease-v1/end", "1-1", "main", "u", "7", "9007199254740993"];
  const expected = fields.map((field) => `\0\0\0${String.fromCharCode(field.length)}${field}`).join("");
  expect(new TextDecoder().decode(bytes)).toBe(expected);
});
