import { expect, it } from "vitest";
import { canOccupy, type Owner } from "./owners.ts";

it.each([
  ["of the whole's kind", "job/train", "job/train--worker-7", true],
  ["of the kind of parts", "session/bench", "session-part/bench--0a1b-2", true],
  [
    "of a longer name than ids of parts keep",
    `session/${"x".repeat(60)}`,
    `session-part/${"x".repeat(47)}--0a1b-2`,
    true,
  ],
  ["of a longer name, of its own kind", `replica-set/${"x".repeat(50)}`, `replica-set/${"x".repeat(50)}--1`, true],
  ["of a longer name that begins alike", `replica-set/${"x".repeat(50)}`, `replica-set/${"x".repeat(47)}--1`, false],
  ["of another whole", "session/bench", "session-part/benches--0a1b-2", false],
  ["of another session that is named so", "session/a", "session/a--b", false],
  ["of another kind", "job/bench", "session-part/bench--0a1b-2", false],
])("pods of a whole may be on the machines of a part %s, or not", (_title, whole, part, may) => {
  const named = (text: string): Owner => {
    const [kind = "", id = ""] = text.split("/");
    return { kind, id };
  };
  expect(canOccupy(named(whole), named(part))).toBe(may);
});
