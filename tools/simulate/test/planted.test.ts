import { faultOf } from "@muster/faults";
import { expect, it } from "vitest";
import type { Tamper } from "../src/replicas/session-controller.ts";
import { simulate, type Plant } from "../src/simulate.ts";

/** An executor that writes over whatever is there: its epoch keeps nobody out. */
const ignoresRevisions: Tamper = (deps) => ({
  ...deps,
  save: async (record, revision) => {
    try {
      return await deps.save(record, revision);
    } catch (error) {
      if (faultOf(error)?.code !== "conflict") throw error;
      const stored = await deps.load(record.name);
      return deps.save(record, stored?.revision ?? revision);
    }
  },
});

/** An executor that gives machines back without looking whether its pods are gone. */
const looksAway: Tamper = (deps) => ({ ...deps, listPods: () => Promise.resolve([]) });

/** An executor that remembers pods which nobody made. */
const forgetsPods: Tamper = (deps) => ({
  ...deps,
  act: async (record, step) => {
    const acted = await deps.act(record, step);
    return step.kind === "create-pod"
      ? {
          got: "outcome",
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

const SEEDS = 12;

it.each<{ title: string; plant: Plant; rules: RegExp }>([
  {
    title: "an executor that ignores revisions",
    plant: { executor: ignoresRevisions },
    rules: /epoch|events|verdict|pod|cancellation|terminal/,
  },
  { title: "an executor that does not look at its pods", plant: { executor: looksAway }, rules: /given back|outcome/ },
  { title: "an executor that remembers other pods than it made", plant: { executor: forgetsPods }, rules: /outcome/ },
  { title: "a ledger without a fence", plant: { ledgerWithoutFence: true }, rules: /owners|asked for|nobody expects/ },
])("finds $title", async ({ plant, rules }) => {
  const found: string[] = [];
  for (let seed = 1; seed <= SEEDS && found.length === 0; seed += 1) {
    const { violations } = await simulate({ seed, sessions: 20, plant });
    found.push(...violations.map(({ rule }) => rule));
  }
  expect(found[0]).toMatch(rules);
});
