import { expect, it } from "vitest";
import { decideRelease } from "./decide-release.ts";

it("releases a lease without users, and otherwise names some of its users", () => {
  const decide = (some: string[], count = some.length) => decideRelease({ users: { some, count } });
  expect(decide([])).toEqual({ kind: "yes", because: "nothing uses it" });
  expect(decide(["1-3"])).toEqual({ kind: "later", lease: "1-3", because: "it is in use by 1-3" });
  const many = ["2-0", "2-1", "2-2", "2-3", "2-4"];
  expect(decide(many, 7).because).toBe("it is in use by 2-0, 2-1, 2-2, 2-3, 2-4 and 2 more");
});
