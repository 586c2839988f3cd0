import { expect, it } from "vitest";
import type { TamperNodes } from "../src/replicas/reservation-manager.ts";
import { runSimulation } from "../src/simulate.ts";
import type { FaultKind } from "../src/fault-risks.ts";

const SESSIONS = 12;
const PARTS = 10;

it("all rules hold for 5 seeds with owners of parts and foreign pods", async () => {
  const kinds = new Set<FaultKind>();
  for (let seed = 1; seed <= 5; seed += 1) {
    const { violations, faults } = await runSimulation({ seed, sessions: SESSIONS, parts: PARTS });
    const command = `npm run simulate -- --seed ${seed} --sessions ${SESSIONS} --parts ${PARTS}`;
    expect(violations, `seed ${seed}: ${command}`).toEqual([]);
    for (const kind of faults.keys()) kinds.add(kind);
  }
  // The test is only valid with foreign pods.
  expect(kinds).toContain("foreign pod");
  expect(kinds).toContain("foreign pod on a granted machine");
}, 120_000);

it("gives the same trace for the same seed, with parts", async () => {
  const options = { seed: 3, sessions: 6, parts: 6 };
  const [one, other] = [await runSimulation(options), await runSimulation(options)];
  expect(other.trace.hash()).toBe(one.trace.hash());
});

/** A ledger that does not see the foreign pods. */
const seesNoForeignUse: TamperNodes = (nodes) => ({
  ...nodes,
  list: () => nodes.list().map((facts) => ({ ...facts, foreign: NO_USE })),
  follow: (keeper) =>
    nodes.follow({
      nodesMarked: () => keeper.nodesMarked(),
      observe: (name, facts) => keeper.observe(name, facts && { ...facts, foreign: NO_USE }),
    }),
});
const NO_USE = { pods: 0, requests: new Map<string, number>(), examples: [] };

it("finds a ledger that does not see foreign use", async () => {
  const found: string[] = [];
  for (let seed = 1; seed <= 6 && found.length === 0; seed += 1) {
    const plant = { nodes: seesNoForeignUse };
    const { violations } = await runSimulation({ seed, sessions: SESSIONS, parts: PARTS, plant });
    found.push(...violations.map(({ rule }) => rule));
  }
  expect(found[0]).toMatch(/foreign use at the time of its grant|exceed no node/);
});
