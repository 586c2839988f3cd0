import fc from "fast-check";
import { expect, it } from "vitest";
import type { LoopName } from "../src/scaler.ts";
import { buildPolicy } from "./build-node.ts";
import type { CloudInstance } from "./memory-cloud.ts";
import { ScalerWorld } from "./scaler-world.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const RUNS = 150;

type Step =
  | { readonly kind: "run"; readonly seconds: number }
  /** An extra round, with whatever the watcher and the ledger have observed so far. */
  | { readonly kind: "round"; readonly loop: LoopName }
  /** `snatch` is a request that is granted immediately after a pool round. */
  | { readonly kind: "watch" | "grant" | "snatch" }
  | { readonly kind: "reserve"; readonly size: number }
  | { readonly kind: "reach" | "release"; readonly at: number }
  | { readonly kind: "kill"; readonly after: number }
  | { readonly kind: "restart"; readonly skewMs: number }
  | { readonly kind: "vanish" | "revive" | "stay-out" | "notice" | "second-name"; readonly at: number }
  | {
      readonly kind: "fault";
      readonly fault: "startFails" | "answerLost" | "stopForgotten" | "listFails" | "listsNothing";
      readonly times: number;
    }
  | { readonly kind: "short" | "limit"; readonly times: number }
  | { readonly kind: "silence"; readonly of: "watcher" | "ledger" | "none" }
  /** From now on the named readers use data that are one minute old, without notice. */
  | { readonly kind: "lag"; readonly of: "scaler" | "ledger" | "both" | "none" };

const at = fc.nat(8);
const times = fc.integer({ min: 1, max: 5 });
const seconds = fc.integer({ min: 1, max: 120 });
const steps: fc.Arbitrary<Step[]> = fc.array(
  fc.oneof(
    { weight: 6, arbitrary: fc.record({ kind: fc.constant("run" as const), seconds }) },
    {
      weight: 4,
      arbitrary: fc.record({
        kind: fc.constant("round" as const),
        loop: fc.constantFrom<LoopName>("pool", "heartbeat", "reaper", "scan"),
      }),
    },
    {
      weight: 4,
      arbitrary: fc.record({ kind: fc.constantFrom("watch" as const, "grant" as const, "snatch" as const) }),
    },
    {
      weight: 3,
      arbitrary: fc.record({ kind: fc.constant("reserve" as const), size: fc.integer({ min: 1, max: 4 }) }),
    },
    { weight: 5, arbitrary: fc.record({ kind: fc.constantFrom("reach" as const, "release" as const), at }) },
    { weight: 4, arbitrary: fc.record({ kind: fc.constant("kill" as const), after: fc.nat(12) }) },
    {
      weight: 1,
      arbitrary: fc.record({ kind: fc.constant("restart" as const), skewMs: fc.constantFrom(-HOUR, 0, HOUR) }),
    },
    {
      weight: 2,
      arbitrary: fc.record({
        kind: fc.constantFrom(
          "vanish" as const,
          "revive" as const,
          "stay-out" as const,
          "notice" as const,
          "second-name" as const,
        ),
        at,
      }),
    },
    {
      weight: 2,
      arbitrary: fc.record({
        kind: fc.constant("fault" as const),
        fault: fc.constantFrom(
          "startFails" as const,
          "answerLost" as const,
          "stopForgotten" as const,
          "listFails" as const,
          "listsNothing" as const,
        ),
        times,
      }),
    },
    { weight: 1, arbitrary: fc.record({ kind: fc.constantFrom("short" as const, "limit" as const), times }) },
    {
      weight: 2,
      arbitrary: fc.record({
        kind: fc.constant("silence" as const),
        of: fc.constantFrom("watcher" as const, "ledger" as const, "none" as const),
      }),
    },
    {
      weight: 2,
      arbitrary: fc.record({
        kind: fc.constant("lag" as const),
        of: fc.constantFrom("scaler" as const, "ledger" as const, "both" as const, "none" as const),
      }),
    },
  ),
  { minLength: 5, maxLength: 60 },
);

/** Ended instances, so that they can reappear. */
type Past = Map<string, CloudInstance>;

async function take(world: ScalerWorld, past: Past, step: Step): Promise<void> {
  const { cloud, ledger } = world;
  for (const [id, instance] of cloud.instances) past.set(id, instance);
  const pick = <Value>(values: Iterable<Value>): Value | undefined => {
    const all = [...values];
    return "at" in step && all.length > 0 ? all[step.at % all.length] : undefined;
  };
  switch (step.kind) {
    case "run":
      return world.run(step.seconds * 1000);
    case "round":
      return step.loop === "pool" && world.isLedgerSilent ? undefined : world.round(step.loop);
    case "watch": {
      world.watch();
      return;
    }
    case "grant": {
      ledger.grant();
      return;
    }
    case "snatch":
      await world.round("heartbeat");
      if (!world.isLedgerSilent) await world.round("pool");
      ledger.reserve("a", 1, world.nowMs);
      ledger.grant();
      return;
    case "reserve":
      ledger.reserve("a", step.size, world.nowMs);
      return;
    case "reach": {
      world.reach(pick(ledger.reservations.keys()) ?? "");
      return;
    }
    case "release": {
      world.release(pick(ledger.reservations.keys()) ?? "");
      return;
    }
    case "kill": {
      world.killAfter(step.after);
      return;
    }
    case "restart": {
      world.restart(step.skewMs);
      return;
    }
    case "vanish":
      cloud.instances.delete(pick(cloud.instances.keys()) ?? "");
      return;
    case "revive": {
      const instance = pick(past.values());
      if (instance !== undefined) cloud.instances.set(instance.instanceId, instance);
      return;
    }
    case "stay-out": {
      const instance = pick(cloud.instances.values());
      if (instance !== undefined) instance.joins = false;
      return;
    }
    case "notice": {
      const instance = pick(cloud.instances.values());
      if (instance !== undefined) instance.lostAtMs = world.nowMs + MINUTE;
      return;
    }
    case "second-name": {
      const node = pick(world.nodes.values());
      if (node !== undefined) world.nodes.set(`${node.name}-again`, { ...node, name: `${node.name}-again` });
      return;
    }
    case "fault":
      cloud.faults[step.fault] = step.times;
      return;
    case "short":
      cloud.faults.short = { times: step.times };
      return;
    case "silence":
      world.isWatcherSilent = step.of === "watcher";
      world.isLedgerSilent = step.of === "ledger";
      return;
    case "lag":
      world.lagMs.scaler = step.of === "scaler" || step.of === "both" ? MINUTE : 0;
      world.lagMs.ledger = step.of === "ledger" || step.of === "both" ? MINUTE : 0;
      return;
    case "limit":
      cloud.faults.rateLimited = { times: step.times, retryAfterMs: 30_000 };
  }
}

function heal(world: ScalerWorld): void {
  const { cloud, ledger } = world;
  Object.assign(cloud.faults, { startFails: 0, answerLost: 0, stopForgotten: 0, listFails: 0, listsNothing: 0 });
  world.isWatcherSilent = false;
  world.isLedgerSilent = false;
  Object.assign(world.lagMs, { scaler: 0, ledger: 0 });
  delete cloud.faults.short;
  delete cloud.faults.rateLimited;
  for (const id of [...ledger.reservations.keys()]) world.release(id);
}

it("leaks nothing, boots nothing twice, takes nothing from a holder, and recovers, whatever was killed and failed", async () => {
  await fc.assert(
    fc.asyncProperty(steps, fc.constantFrom(0, MINUTE), async (script, idleMs) => {
      const world = new ScalerWorld(buildPolicy({ max: 6, idleMs }));
      const past: Past = new Map();
      for (const step of script) await take(world, past, step);

      world.killAfter(Infinity);
      heal(world);
      await world.run(30 * MINUTE);
      const before = world.cloud.starts.size;
      const gang = world.ledger.reserve("a", 4, world.nowMs);
      await world.run(15 * MINUTE);
      expect(world.ledger.reservations.get(gang)?.machines).toHaveLength(4);
      expect(world.cloud.starts.size - before).toBe(4);
      world.release(gang);
      await world.run(10 * MINUTE);
      const left = [...world.nodes.values()].filter(({ ready }) => ready);
      expect([world.records(), [...world.cloud.instances.keys()], left]).toEqual([[], [], []]);
      expect(world.problems).toEqual([]);
    }),
    { numRuns: RUNS },
  );
}, 900_000);
