import fc from "fast-check";
import { expect, it } from "vitest";
import { buildNetworkId } from "./lease-names.ts";

it("gives each user and name a different id, valid in the name of a namespace", () => {
  expect(buildNetworkId("12", "net")).not.toBe(buildNetworkId("1", "2net"));
  const text = fc.string({ unit: fc.constantFrom("1", "2", ":", "a", "é") });
  fc.assert(
    fc.property(text, text, text, text, (user, name, otherUser, otherName) => {
      const id = buildNetworkId(user, name);
      expect(`muster-${id}`).toMatch(/^[a-z][a-z0-9-]{0,61}[a-z0-9]$/);
      expect(id === buildNetworkId(otherUser, otherName)).toBe(user === otherUser && name === otherName);
    }),
  );
});
