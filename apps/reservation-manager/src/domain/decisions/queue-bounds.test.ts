import { expect, it } from "vitest";
import { askForCpu } from "../../../test/queue-run.ts";
import { toAmounts, makeNode, makeQueue, startRun, stepRun, type LedgerRun } from "../../../test/random-world.ts";
import { getReservation } from "../ledger/ledger.ts";
import { evolveWorld, type World } from "../ledger/world.ts";
import { buildTreeSummaries } from "./queue-bounds.ts";

const CPU = "a cpu";
const NODE = makeNode("n0", "a", { allocatable: toAmounts({ cpu: 10_000, pods: 10_000 }) });
const TREES = 20;
const NEVER_MS = -1;

/** Trees of five queues that own `nominal` cpu each. */
function startTrees(nominal: number): LedgerRun {
  const run = startRun([NODE]);
  for (let tree = 0; tree < TREES; tree += 1) {
    stepRun(run, { kind: "queue", queue: makeQueue(`t${tree}`) });
    for (let index = 0; index < 5; index += 1)
      stepRun(run, {
        kind: "queue",
        queue: makeQueue(`q${tree}-${index}`, { [CPU]: nominal }, { parent: `t${tree}` }),
      });
  }
  return run;
}

function ask(run: LedgerRun, id: string, queue: string, cpu: number): void {
  askForCpu(run, id, cpu, { queue });
}

function askInEach(run: LedgerRun, id: string, cpu: number): void {
  for (let tree = 0; tree < TREES; tree += 1)
    for (let index = 0; index < 5; index += 1) ask(run, `${id}${tree}-${index}`, `q${tree}-${index}`, cpu);
}

/** Returns the world after the release of the first request, before any grant. */
function released({ world }: LedgerRun): World {
  return evolveWorld(world, [{ kind: "released", sequence: getReservation(world.ledger, 1).sequence, atMs: 0 }]);
}

/** Returns the trees that a search for grants visits. */
function promising(world: World, overdueSinceMs: number): string[] {
  const summaries = buildTreeSummaries(world, overdueSinceMs);
  const found = world.ledger.trees.search(summaries, ({ admitted }) => admitted.length > 0);
  return [...found].map(([name]) => name);
}

it("visits no tree whose quota is used, and after a release the tree of the released request", () => {
  const run = startTrees(2);
  askInEach(run, "held", 2);
  askInEach(run, "waits", 1);
  expect(run.world.ledger.trees.size).toBe(TREES);
  expect(promising(run.world, NEVER_MS)).toEqual([]);
  expect(promising(released(run), NEVER_MS)).toEqual(["t0"]);
});

it("visits no tree with less free quota than the smallest request needs", () => {
  const run = startTrees(3);
  askInEach(run, "held", 3);
  askInEach(run, "waits", 20);
  expect(promising(released(run), NEVER_MS)).toEqual([]);
});

it("visits no tree whose free quota is kept for overdue requests", () => {
  const run = startTrees(4);
  for (const id of ["half0", "half1"]) ask(run, id, "q0-0", 2);
  for (let index = 1; index < 5; index += 1) ask(run, `held${index}`, `q0-${index}`, 4);
  for (let index = 0; index < 5; index += 1) {
    ask(run, `large${index}`, `q0-${index}`, 4);
    ask(run, `small${index}`, `q0-${index}`, 1);
  }
  // Then 2 cpu are free: enough for the small requests, unless their queues keep them for earlier large requests.
  expect(promising(released(run), NEVER_MS)).toEqual(["t0"]);
  expect(promising(released(run), Infinity)).toEqual([]);
});

it.each([[NEVER_MS], [-Infinity]])("summarises an unchanged tree once, when requests since %s ms are overdue", (ms) => {
  const run = startTrees(2);
  askInEach(run, "held", 2);
  askInEach(run, "waits", 1);
  const tree = run.world.ledger.trees.get("t0");
  const [first, second] = [ms, ms].map(
    (overdueSinceMs) => tree && buildTreeSummaries(run.world, overdueSinceMs).of(tree),
  );
  expect(first).toBeDefined();
  expect(second).toBe(first);
});
