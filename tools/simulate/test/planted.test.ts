import { findFault } from "@muster/faults";
import { expect, it } from "vitest";
import type { Tamper } from "../src/replicas/session-controller.ts";
import { runSimulation, type PlantedDefects } from "../src/simulate.ts";

/** An executor that overwrites every conflicting write: its epoch stops no other executor. */
const ignoresRevisions: Tamper = (deps) => ({
  ...deps,
  save: async (record, revision) => {
    try {
      return await deps.save(record, revision);
    } catch (error) {
      if (findFault(error)?.code !== "conflict") throw error;
      const stored = await deps.load(record.name);
      return deps.save(record, stored?.revision ?? revision);
    }
  },
});

/** An executor that releases machines without checking that its pods are removed. */
const listsNoPods: Tamper = (deps) => ({ ...deps, listPods: () => Promise.resolve([]) });

/** An executor that records uids of pods that do not exist. */
const recordsWrongUids: Tamper = (deps) => ({
  ...deps,
  act: async (record, step, isHeld) => {
    const acted = await deps.act(record, step, isHeld);
    return step.kind === "create-pod"
      ? {
          kind: "outcome",
          outcome: {
            kind: "pod-created",
            component: step.component.name,
            uid: crypto.randomUUID(),
            node: step.node,
          },
        }
      : acted;
  },
});

/** An executor whose pods select the preferred pool, and not the granted one. */
const selectsFirstPool: Tamper = (deps) => ({
  ...deps,
  act: (record, step, isHeld) =>
    deps.act(record, step.kind === "create-pod" ? { ...step, pool: step.component.pool } : step, isHeld),
});

const SEEDS = 12;

it.each<{ title: string; plant: PlantedDefects; rules: RegExp }>([
  {
    title: "an executor that ignores revisions",
    plant: { executor: ignoresRevisions },
    rules: /epoch|events|verdict|pod|cancellation|terminal/,
  },
  { title: "an executor that does not list its pods", plant: { executor: listsNoPods }, rules: /released|outcome/ },
  { title: "an executor that records wrong uids", plant: { executor: recordsWrongUids }, rules: /outcome/ },
  {
    title: "an executor that creates pods in the preferred pool",
    plant: { executor: selectsFirstPool },
    rules: /outcome/,
  },
  {
    title: "a ledger without a fence",
    plant: { ledgerWithoutFence: true },
    rules: /owners|only requested|unexpectedly/,
  },
])("finds $title", async ({ plant, rules }) => {
  const found: string[] = [];
  for (let seed = 1; seed <= SEEDS && found.length === 0; seed += 1) {
    const { violations } = await runSimulation({ seed, sessions: 20, plant });
    found.push(...violations.map(({ rule }) => rule));
  }
  expect(found[0]).toMatch(rules);
});
