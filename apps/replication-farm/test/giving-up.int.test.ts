import type { Session } from "@muster/store";
import { until } from "@muster/testkit";
import { expect, it } from "vitest";
import { aSet } from "../src/domain/a-set.ts";
import { makeFarm } from "../src/farm.ts";
import { passWorld } from "./pass-world.ts";

const NEVER_MS = 600_000;

it("a farm goes on when a set of somebody else cannot be given up, and says so", async () => {
  await using world = await passWorld();
  await world.sets.create("theirs", aSet({ name: "theirs", fence: 9 }));
  await until("the set is seen", () => world.world.sets().length === 1);
  const warned: unknown[] = [];
  const stop = new AbortController();
  const farm = makeFarm({
    pass: world.deps,
    world: world.world,
    pods: { list: () => Promise.resolve([]), delete: () => Promise.resolve() },
    scheduler: {
      list: () => Promise.resolve([]),
      deallocate: () => Promise.resolve(),
      onChange: () => () => undefined,
    },
    logger: {
      info: () => undefined,
      error: () => undefined,
      warn: (_about: unknown, text?: string) => warned.push(text),
    },
    resyncMs: NEVER_MS,
    sweepMs: NEVER_MS,
  });
  const session: Session = {
    id: "ours",
    signal: stop.signal,
    isHeld: () => true,
    lock: (key) => Promise.resolve({ key, token: 1 }),
    unlock: () => Promise.reject(new Error("the bucket is gone")),
    view: () => ({
      sessions: new Map([["ours", { id: "ours", holder: "us", about: { rcSelector: "" } }]]),
      locks: new Map(),
    }),
    onChange: () => () => undefined,
  };
  const run = farm.run(session);
  await until("it has said so", () => warned.includes("a set could not be given up"));
  expect(farm.owned()).toBe(0);
  stop.abort();
  await expect(run).resolves.toBeUndefined();
});
