import fc from "fast-check";
import { expect, it } from "vitest";
import { decideReturnPath } from "./decide-return-path.ts";

it.each([
  ["/", "/"],
  ["/queues/a?sort=name#b", "/queues/a?sort=name#b"],
  ["/a/../b", "/b"],
  ["queues", "/"],
  ["https://evil.example/", "/"],
  ["//evil.example/", "/"],
  ["/\\evil.example/", "/"],
  ["/\t/evil.example/", "/"],
  ["/.//evil.example/", "/"],
  ["/a/..//evil.example", "/"],
  ["javascript:alert(1)", "/"],
  ["/auth/oidc/start", "/"],
  [["/a", "/b"], "/"],
  [undefined, "/"],
  [`/${"a".repeat(5000)}`, "/"],
])("returns from %s to %s", (asked, path) => {
  expect(decideReturnPath(asked)).toBe(path);
});

it("never leaves the host", () => {
  const part = fc.oneof(
    fc.constantFrom("/", "\\", "..", ".", "\t", "\n", "@", ":", "%2f", "evil.example"),
    fc.string(),
  );
  fc.assert(
    fc.property(fc.array(part), (parts) => {
      const path = decideReturnPath(`/${parts.join("")}`);
      expect(path).toMatch(/^\//);
      expect(new URL(path, "https://muster.example").origin).toBe("https://muster.example");
      expect(decideReturnPath(path)).toBe(path);
    }),
  );
});
