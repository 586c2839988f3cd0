import { until } from "@muster/testkit";
import { afterAll, beforeAll, expect, it } from "vitest";
import { aSpec, placedOn } from "../src/domain/a-set.ts";
import type { ReplicaSet } from "../src/domain/replica-set.ts";
import { passWorld, type PassWorld } from "./pass-world.ts";

const HOUR_MS = 3_600_000;

let world: PassWorld;
let nowMs = Date.now();
const alerts: string[] = [];

beforeAll(async () => {
  world = await passWorld(
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
  await until(`${name} is settled`, async () => (await world.pass(name)).is === "settled");
  const found = await world.sets.get(name);
  if (found === undefined || !("record" in found)) throw new Error(`there is no ${name}`);
  return found.record;
}

it.each([1, 3])(
  "a set of %i whose pods the API server refuses for hours says that, and nothing else",
  async (wanted) => {
    const name = `refused-${wanted}`;
    const spec = aSpec({ podId: name, replicasDesired: wanted });
    await world.sets.create(name, placedOn(["n1"], { name, uid: name, fence: 1, spec }));
    for (const endMs = nowMs + 2 * HOUR_MS; nowMs < endMs; nowMs += 300_000)
      expect((await settle(name)).trouble).toMatchObject({ code: "POD_REFUSED" });
    expect(alerts.filter((each) => each === `resolve pod_refused_${name}`)).toEqual([]);
  },
);
