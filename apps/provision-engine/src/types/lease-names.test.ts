import fc from "fast-check";
import { expect, it } from "vitest";
import { networkId } from "./lease-names.ts";

it("gives each user and name a different id, valid in the name of a namespace", () => {
  expect(networkId("12", "net")).not.toBe(networkId("1", "2net"));
  const text = fc.string({ unit: fc.constantFrom("1", "2", ":", "a", "é") });
  fc.assert(
    fc.property(text, text, text, text, (user, name, otherUser, otherName) => {
      const id = networkId(user, name);
      expect(`muster-${id}`).toMatch(/^[a-z][a-z0-9-]{0,61}[a-z0-9]$/);
      expect(id === networkId(otherUser, otherName)).toBe(user === otherUser && name === otherName);
    }),
  );
});
