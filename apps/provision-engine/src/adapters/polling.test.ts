import { expect, it } from "vitest";
import { pushStats } from "./polling.ts";

it("pushes statistics at the start and at each change, and retries failed pushes", async () => {
  const stop = new AbortController();
  const counts = [1, 1, 2, 2, 2, 3];
  const pushed: unknown[] = [];
  let failures = 0;
  let at = 0;
  await pushStats(
    {
      stats: () => ({ count: counts[at] }),
      push: (stats) => {
        pushed.push(stats);
        return at === 2 ? Promise.reject(new Error("no")) : Promise.resolve();
      },
      pause: () => {
        at += 1;
        if (at === counts.length) stop.abort();
        return Promise.resolve();
      },
      failed: () => (failures += 1),
      everyMs: 1,
    },
    stop.signal,
  );
  expect(pushed).toEqual([{ count: 1 }, { count: 2 }, { count: 2 }, { count: 3 }]);
  expect(failures).toBe(1);
});
