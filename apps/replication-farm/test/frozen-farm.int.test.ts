import { until } from "@muster/testkit";
import { expect, it } from "vitest";
import { makeRollout, makeSpec, makePlacedSet } from "./a-set.ts";
import type { ReplicaSet } from "../src/domain/replica-set.ts";
import { makeSetOwnership } from "../src/set-passes.ts";
import { runPassOnce } from "./pass-once.ts";
import type { PassDeps } from "../src/pass-deps.ts";
import { openPassWorld, type PassWorld } from "./pass-world.ts";

const [OLD, NEW] = ["web-1", "web-2"] as const;

/** Where a farm is frozen in the pass that marks the old set: `reached` resolves then, and it continues once `wake` is called. */
function freezeAt(deps: PassDeps, call: "get" | "change") {
  const reached = Promise.withResolvers<undefined>();
  const woken = Promise.withResolvers<undefined>();
  const freeze = async (): Promise<void> => {
    reached.resolve(undefined);
    await woken.promise;
  };
  const { sets } = deps;
  const frozen: PassDeps["sets"] =
    call === "get"
      ? { ...sets, get: async (key) => (key === OLD ? freeze().then(() => sets.get(key)) : sets.get(key)) }
      : {
          ...sets,
          change: async (change) =>
            change.key === OLD ? freeze().then(() => sets.change(change)) : sets.change(change),
        };
  return { deps: { ...deps, sets: frozen }, reached: reached.promise, wake: () => woken.resolve(undefined) };
}

it.each([
  ["read the update", "get"],
  ["decided to mark a set", "change"],
] as const)(
  "a farm that was frozen after it had %s does not mark the set once another farm has ended the update",
  async (_when, call) => {
    await using world = await openPassWorld();
    const podId = "web";
    await world.putNode("n1", { labels: { disk: "ssd" } });
    await world.complete();
    await world.sets.create(OLD, makePlacedSet(["n1"], { name: OLD, spec: makeSpec({ podId, replicasDesired: 1 }) }));
    await world.sets.create(NEW, makePlacedSet([], { name: NEW, uid: "u2", spec: makeSpec({ podId }) }));
    await world.rollouts.create(
      NEW,
      makeRollout({ id: NEW, oldSet: OLD, newSet: NEW, target: 1, minimum: 0, phase: "CREATING", fence: 0 }),
    );
    await until("all is seen", () => world.world.sets().length === 2 && world.world.rollout(NEW) !== undefined);

    const sleeper = freezeAt(world.deps, call);
    const sleeping = passUntilChanged(sleeper.deps, world);
    await sleeper.reached;

    const successor = makeSetOwnership(world.deps, { name: NEW, fence: 2, isHeld: () => true });
    await runPassOnce(world.deps, successor);
    expect(await world.rollouts.get(NEW)).toMatchObject({ record: { fence: 2 } });
    await replace(world, NEW, { deletion: { keepPods: false, atMs: 1 } });
    await until("the successor has ended the update", async () => {
      await runPassOnce(world.deps, successor);
      return (await world.rollouts.get(NEW)) === undefined;
    });
    await replace(world, NEW, { uid: "u3", deletion: undefined });

    sleeper.wake();
    await sleeping;
    expect((await recordOf(world, OLD)).rollout).toBeUndefined();
  },
);

/** Passes of the farm that owned the update, which does not notice that it has lost it, until it has marked the set or has nothing to do. */
async function passUntilChanged(deps: PassDeps, world: PassWorld): Promise<void> {
  const owned = makeSetOwnership(deps, { name: NEW, fence: 1, isHeld: () => true });
  for (let pass = 0; pass < 5; pass += 1) {
    const passed = await runPassOnce(deps, owned).catch(() => undefined);
    if (passed?.kind === "settled" || passed?.kind === "lost") return;
    if ((await recordOf(world, OLD)).rollout !== undefined) return;
  }
}

async function recordOf({ sets }: PassWorld, name: string): Promise<ReplicaSet> {
  const found = await sets.get(name);
  if (found === undefined || !("record" in found)) throw new Error(`there is no set ${name}`);
  return found.record;
}

async function replace(world: PassWorld, name: string, change: Partial<ReplicaSet>): Promise<void> {
  const { revision } = (await world.sets.get(name)) ?? { revision: 0 };
  await world.sets.change({ key: name, revision, next: { ...(await recordOf(world, name)), ...change }, audits: [] });
}
