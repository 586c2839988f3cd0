import { makeFixedClock } from "@muster/testkit";
import { expect, it } from "vitest";
import { makeFullZones } from "./full-zones.ts";

it("remembers a full zone for the configured time, spot and on-demand separately, and no longer if it is found full again", () => {
  const clock = makeFixedClock(0);
  const full = makeFullZones(clock.now, 5000);
  const spot = { instanceType: "large", spot: true };
  const onDemand = { instanceType: "large", spot: false };
  full.add(spot, "a");
  expect([full.has(spot, "a"), full.has(onDemand, "a"), full.has(spot, "b")]).toEqual([true, false, false]);
  clock.advance(4999);
  full.add(spot, "a");
  expect(full.has(spot, "a")).toBe(true);
  clock.advance(1);
  expect(full.has(spot, "a")).toBe(false);
});
