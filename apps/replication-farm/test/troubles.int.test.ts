import { until } from "@muster/testkit";
import { afterAll, beforeAll, expect, it } from "vitest";
import { makeRollout, makeSpec, makePlacedSet } from "./a-set.ts";
import type { AuditRecord, ReplicaSet } from "../src/domain/replica-set.ts";
import { makeSetOwnership } from "../src/set-passes.ts";
import { runPassOnce } from "./pass-once.ts";
import { openPassWorld, type PassWorld } from "./pass-world.ts";

const HOUR_MS = 3_600_000;

let world: PassWorld;
let nowMs = Date.now();
const alerts: string[] = [];

beforeAll(async () => {
  world = await openPassWorld(
    {},
    {
      now: () => nowMs,
      unhealthyMs: 60_000,
      alerts: {
        raise: ({ incidentKey }) => void alerts.push(`raise ${incidentKey}`),
        resolve: (incidentKey) => void alerts.push(`resolve ${incidentKey}`),
      },
    },
  );
  await world.putNode("n1", { labels: { disk: "ssd" } });
  await world.complete();
});

afterAll(() => world[Symbol.asyncDispose]());

async function settle(name: string): Promise<ReplicaSet> {
  await until(`${name} is settled`, async () => (await world.pass(name)).kind === "settled");
  const found = await world.sets.get(name);
  if (found === undefined || !("record" in found)) throw new Error(`there is no ${name}`);
  return found.record;
}

it.each([1, 3])(
  "a set of %i whose pods the API server refuses for hours reports that, and nothing else",
  async (wanted) => {
    const name = `refused-${wanted}`;
    const spec = makeSpec({ podId: name, replicasDesired: wanted });
    await world.sets.create(name, makePlacedSet(["n1"], { name, uid: name, fence: 1, spec }));
    for (const endMs = nowMs + 2 * HOUR_MS; nowMs < endMs; nowMs += 300_000)
      expect((await settle(name)).trouble).toMatchObject({ code: "POD_REFUSED" });
    expect(alerts.filter((each) => each === `resolve pod_refused_${name}`)).toEqual([]);
  },
);

it("a rolling update that ends between the reads of its set and itself is not missed", async () => {
  const name = "just-freed";
  await world.sets.create(
    name,
    makePlacedSet(["n1"], { name, uid: name, fence: 1, rollout: "over", spec: makeSpec({ podId: name }) }),
  );
  const { rollouts: rolls, sets } = world.deps;
  let isOver = false;
  const ending: typeof rolls = {
    ...rolls,
    get: async (id) => {
      const found = await sets.get(name);
      if (!isOver && found !== undefined && "record" in found) {
        isOver = true;
        const next = { ...found.record, rollout: undefined };
        await sets.change({ key: name, revision: found.revision, next, audits: [] });
      }
      return rolls.get(id);
    },
  };
  const owned = makeSetOwnership(world.deps, { name, fence: 1, isHeld: () => true });
  await expect(runPassOnce({ ...world.deps, rollouts: ending }, owned)).rejects.toThrow();
  expect(alerts.filter((each) => each.includes(`roll_set_missing_${name}`))).toEqual([]);
});

it("a rolling update without its own set waits for the other, unreadable one, and one without both sets is audited", async () => {
  await world.rollouts.create("gone-2", makeRollout({ id: "gone-2", oldSet: "gone-1", newSet: "gone-2" }));
  await until("it is seen", () => world.world.rollouts().some(({ id }) => id === "gone-2"));
  const { sets } = world.deps;
  const unreadable: typeof sets = {
    ...sets,
    get: (key) =>
      key === "gone-1" ? Promise.resolve({ unreadable: "of a later version", revision: 1 }) : sets.get(key),
  };
  const owned = makeSetOwnership(world.deps, { name: "gone-2", fence: 1, isHeld: () => true });
  expect(await runPassOnce({ ...world.deps, sets: unreadable }, owned)).toMatchObject({ kind: "settled" });
  const audits: AuditRecord[] = [];
  const auditLog = { publish: (records: readonly AuditRecord[]) => Promise.resolve(void audits.push(...records)) };
  expect(await runPassOnce({ ...world.deps, auditLog }, owned)).toMatchObject({ kind: "again" });
  expect(await world.rollouts.get("gone-2")).toBeUndefined();
  expect(audits).toMatchObject([{ eventType: "ROLLING_UPDATE_COMPLETION", replicaSet: "gone-2" }]);
});
