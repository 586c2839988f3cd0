import { expect, it } from "vitest";
import { explainWait } from "./explain-wait.ts";

it.each([
  [1, 0, "1 machine of pool a is needed, and none is free"],
  [3, 0, "3 machines of pool a are needed, and fewer are free"],
  [1, 1, "1 part of a machine of pool a is needed, and no machine has room"],
  [2, 2, "2 parts of machines of pool a are needed, and fewer fit"],
  [2, 1, "1 machine and 1 part of a machine of pool a are needed, and fewer fit"],
  [5, 3, "2 machines and 3 parts of machines of pool a are needed, and fewer fit"],
])("explains the wait for %d, %d of them parts", (requested, parts, text) => {
  expect(explainWait({ code: "POOL_AVAILABILITY", pool: "a", requested, parts })).toBe(text);
});
