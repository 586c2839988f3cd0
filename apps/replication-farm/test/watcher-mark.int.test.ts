import { expect, it } from "vitest";
import { NODES_FRESH_MS, openPassWorld } from "./pass-world.ts";

it("nodes are unknown while the watcher's mark is old, or lies in the future", async () => {
  const aheadMs = { now: 0 };
  await using world = await openPassWorld({}, { wallNow: () => Date.now() + aheadMs.now });
  await world.putNode("n1");
  await world.complete();
  const isKnown = (): boolean => world.world.observedNodes() !== undefined;
  for (const farMs of [2 * NODES_FRESH_MS, -2 * NODES_FRESH_MS]) {
    aheadMs.now = farMs;
    expect(isKnown()).toBe(false);
    aheadMs.now = 0;
    expect(isKnown()).toBe(true);
  }
});
