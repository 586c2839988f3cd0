import { muster } from "@muster/proto";
import { until } from "@muster/testkit";
import { expect, it } from "vitest";
import { makePlacement, makeRollout, makeSet, makeSpec, makeTransfer, makePlacedSet } from "./a-set.ts";
import type { ReplicaSet } from "../src/domain/replica-set.ts";
import type { TroubleCode } from "../src/domain/troubles.ts";
import type { Rollout } from "../src/domain/rollout.ts";
import { openPassWorld, type PassWorld } from "./pass-world.ts";

const { HEALTH_NOT_READY } = muster.health.v1.Health;
const NODES = ["n1", "n2", "n3"];
const PASSES = 10;
const LATER_MS = Date.now() + 3_600_000;

/** Each has a pod id of its own, so that none is in another's way. */
const named = (name: string, set: ReplicaSet, spec: Partial<ReplicaSet["spec"]> = {}): ReplicaSet => ({
  ...set,
  name,
  uid: name,
  spec: { ...set.spec, podId: name, nodeSelector: "n=yes", ...spec },
});

type AtRest = {
  readonly set: ReplicaSet;
  /** Not ready; all others are. */
  readonly unready?: readonly number[];
  /** Not made, because the node takes none. */
  readonly missing?: readonly number[];
  readonly deleting?: readonly number[];
  readonly trouble?: TroubleCode;
};

const STATES: readonly AtRest[] = [
  { set: named("well", makePlacedSet(NODES)) },
  { set: named("empty", makeSet()) },
  { set: named("disabled", makePlacedSet(["n1"], { disabled: true, spec: makeSpec({ replicasDesired: 3 }) })) },
  {
    set: named("disabled-short", makePlacedSet(["n1", "n2"], { disabled: true })),
    missing: [2],
  },
  { set: named("short", makePlacedSet(NODES, { spec: makeSpec({ replicasDesired: 7 }) })), trouble: "TOO_FEW_NODES" },
  { set: named("starting", makePlacedSet(NODES)), unready: [1, 3] },
  { set: named("static", makePlacedSet(["gone"]), { allocationStrategy: "static" }) },
  {
    set: named("held", makePlacedSet(["gone"], { transfersHeld: { by: "ann", because: "a copy", atMs: 1 } })),
  },
  { set: named("pausing", makePlacedSet(["gone"], { transferFailures: 3, transferNotBeforeMs: LATER_MS })) },
  { set: named("others-ill", makePlacedSet(["gone", "n1"])), unready: [2] },
  {
    set: named(
      "moving",
      makePlacedSet(["gone", "n1"], { transfer: makeTransfer("gone", "n1"), spec: makeSpec({ replicasDesired: 1 }) }),
    ),
    unready: [2],
  },
  { set: named("seeking", makePlacedSet(NODES, { transfer: makeTransfer("n1", undefined) })) },
  { set: named("daemon", makePlacedSet(NODES), { daemon: true, replicasDesired: 0 }) },
  {
    set: named("daemon-nowhere", makePlacedSet(NODES), { daemon: true, nodeSelector: "no=where" }),
    trouble: "NO_ELIGIBLE_NODES",
  },
  {
    set: named(
      "renewing",
      { ...makePlacedSet(NODES), placements: renewing() },
      { nodeSelector: "", replicasDesired: 8 },
    ),
    unready: [4, 5, 6, 7, 8],
  },
  { set: named("node-away", makePlacedSet(["tainted"]), { allocationStrategy: "static" }), missing: [1] },
  {
    set: named(
      "deleted",
      makeSet({ ...makePlacedSet(["n1"]), placements: [], deletion: { keepPods: false, atMs: 1 } }),
    ),
    deleting: [1],
  },
  { set: named("roll-old", makePlacedSet(["n1", "n2"], { rollout: "roll-new" }), { podId: "rolled" }) },
  { set: named("roll-new", makePlacedSet(["n3"], { rollout: "roll-new" }), { podId: "rolled" }), unready: [1] },
  { set: named("paused-old", makePlacedSet(["n1", "n2"], { rollout: "paused-new" }), { podId: "paused" }) },
  { set: named("paused-new", makePlacedSet(["n3"], { rollout: "paused-new" }), { podId: "paused" }) },
];

const ROLLS: readonly Rollout[] = [
  makeRollout({ id: "roll-new", oldSet: "roll-old", newSet: "roll-new", oldDesired: 2, newDesired: 1, minimum: 2 }),
  makeRollout({
    id: "paused-new",
    oldSet: "paused-old",
    newSet: "paused-new",
    oldDesired: 2,
    newDesired: 1,
    phase: "PAUSED",
  }),
];

/** Three places of an earlier template, and a whole group that has just been recreated. */
function renewing() {
  const earlier = NODES.map((node, index) => makePlacement(node, index + 1, "h0"));
  const renewed = ["m1", "m2", "m3", "m4", "m5"].map((node, index) => makePlacement(node, index + 4));
  return [...renewed, ...earlier];
}

it("settled sets, in any state, get passes without a write, a pod, an audit or an event, and show their troubles", async () => {
  await using world = await openPassWorld();
  await fill(world);
  await settle(world);
  for (const { set, trouble } of STATES) {
    const found = await world.sets.get(set.name);
    expect(found, set.name).toMatchObject({
      record: { trouble: trouble && { code: trouble }, transfer: set.transfer },
    });
    if (found !== undefined && "record" in found) {
      const nodes = (of: ReplicaSet) => of.placements.map(({ node, ordinal }) => `${node} ${ordinal}`);
      expect(nodes(found.record), set.name).toEqual(nodes(set));
    }
  }
  const before = await world.writes();
  const raised = world.raised("too_few_nodes_short");
  for (let pass = 0; pass < PASSES; pass += 1)
    for (const { set } of STATES)
      expect(await world.pass(set.name), set.name).toMatchObject({ kind: "settled", failed: false });
  expect((await world.writes()) - before).toBe(0);
  // The alerts remember when each was last published.
  expect(world.raised("too_few_nodes_short") - raised).toBe(PASSES);
});

async function fill(world: PassWorld): Promise<void> {
  for (const node of [...NODES, "m1", "m2", "m3", "m4", "m5"])
    await world.putNode(node, node.startsWith("n") ? { labels: { n: "yes" } } : {});
  await world.putNode("tainted", { labels: { n: "yes" }, schedulable: false });
  await world.complete();
  for (const roll of ROLLS) await world.rollouts.create(roll.id, roll);
  for (const { set, unready = [], missing = [], deleting = [] } of STATES) {
    await world.sets.create(set.name, set);
    for (const { ordinal } of set.placements) {
      if (missing.includes(ordinal)) continue;
      await world.putPod(set, ordinal, unready.includes(ordinal) ? { health: HEALTH_NOT_READY } : {});
    }
    for (const ordinal of deleting) await world.putPod(set, ordinal, { deleting: true, node: "n1" });
  }
  await until("all of it is seen", () => {
    const pods = STATES.flatMap(({ set }) => [...world.world.podsOf(set.name).keys()]);
    const wanted = STATES.reduce(
      (sum, { set, missing = [], deleting = [] }) => sum + set.placements.length - missing.length + deleting.length,
      0,
    );
    return (
      world.world.sets().length === STATES.length &&
      world.world.rollouts().length === ROLLS.length &&
      pods.length === wanted
    );
  });
}

/** Troubles are noted, and whatever else there is to be done once. */
async function settle(world: PassWorld): Promise<void> {
  for (const { set } of STATES)
    await until(`${set.name} is settled`, async () => (await world.pass(set.name)).kind === "settled");
}
