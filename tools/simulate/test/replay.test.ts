import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { planNext } from "../src/replay.ts";
import { runSimulation } from "../src/simulate.ts";
import { readSnapshot, takeSnapshot, writeSnapshot } from "../src/system-snapshot.ts";

it("replays a snapshot from its file: the same next steps, each with its reason", async () => {
  const folder = mkdtempSync(join(tmpdir(), "muster-simulate-"));
  try {
    const file = join(folder, "now.json");
    const taken: ReturnType<typeof planNext>[] = [];
    await runSimulation({
      seed: 7,
      sessions: 20,
      inspectAt: {
        ms: 10_000,
        inspect: (world) => {
          const snapshot = takeSnapshot(world);
          taken.push(planNext(snapshot));
          writeSnapshot(file, snapshot);
        },
      },
    });
    const replayed = planNext(readSnapshot(file));
    expect(replayed.length).toBeGreaterThan(0);
    expect(replayed).toEqual(taken[0]);
    for (const { because } of replayed) expect(because).not.toBe("");
  } finally {
    rmSync(folder, { recursive: true });
  }
});
