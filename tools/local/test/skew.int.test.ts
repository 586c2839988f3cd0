import { STANDARD } from "@muster/repo/services";
import { expect, it } from "vitest";
import { BASELINE, describeMissingBaseline, buildBaseline } from "./baseline-programs.ts";
import { buildJob, buildSession } from "./skew-documents.ts";
import { startSkew } from "./skew-world.ts";
import { endLasting, expectAllWorks, expectLasting, startLasting } from "./skew-work.ts";
import { expectNothingLeft } from "./stack-world.ts";

const missing = describeMissingBaseline();
const SKIPPED = missing === undefined ? "" : ` (skipped: ${missing})`;

it.skipIf(missing !== undefined)(
  `the last release and this tree work together as services and command line, during a rollout and after a rollback${SKIPPED}`,
  { timeout: 600_000 },
  async () => {
    await using stack = new AsyncDisposableStack();
    const old = stack.use(await buildBaseline());
    const skew = stack.use(await startSkew(old));
    const { newCli, oldCli } = skew;
    await startLasting(skew);
    await expectAllWorks(skew, newCli, "new", 5001);
    let turns = 0;
    for (const by of ["new", "old"] as const) {
      for (const service of STANDARD.filter(old.has)) {
        await skew.replace(service, by);
        turns += 1;
        const quick = await skew.fileOf(`quick-${turns}.yaml`, [
          buildSession(`quick-${turns}`),
          buildJob(`quick-job-${turns}`),
        ]);
        await (turns % 2 === 0 ? newCli : oldCli)(`run ${quick}`);
      }
      await expectLasting(skew);
      if (by === "new") await expectAllWorks(skew, oldCli, "old", 6001);
    }
    await endLasting(skew);
    await expectNothingLeft(skew.world);
    expect(skew.crashes, `services of ${BASELINE} or of this tree that crashed`).toEqual([]);
  },
);
