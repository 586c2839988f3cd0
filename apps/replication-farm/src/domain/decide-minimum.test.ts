import { expect, it } from "vitest";
import { decideMinimum } from "./decide-minimum.ts";

it.each<[string, Parameters<typeof decideMinimum>[0], number, RegExp | undefined]>([
  ["less than the present number", { minimum: 2, target: 3, leaveOld: false }, 3, undefined],
  ["0 of 0", { minimum: 0, target: 0, leaveOld: false }, 0, undefined],
  ["the present number, while more are added", { minimum: 3, target: 4, leaveOld: false }, 3, undefined],
  ["the maximum that ever exists", { minimum: 3, target: 3, leaveOld: false }, 3, /it is 2 at most$/],
  ["more than are desired in the end", { minimum: 3, target: 2, leaveOld: false }, 5, /it is 2 at most$/],
  ["more than the canary has, while the old set stays", { minimum: 3, target: 1, leaveOld: true }, 5, undefined],
  ["all of the old set beside a canary", { minimum: 5, target: 1, leaveOld: true }, 5, /it is 4 at most$/],
])("a minimum of %s", (_case, rollout, most, reason) => {
  const found = decideMinimum(rollout, most);
  if (reason === undefined) expect(found).toBeUndefined();
  else expect(found).toMatch(reason);
});
