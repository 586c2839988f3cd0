import type { ServiceContext } from "@muster/service";
import { expect, it } from "vitest";
import type { Config } from "../config.ts";
import type { KindRuntime } from "./kind-runtime.ts";
import { makePasses } from "./passes.ts";
import { makeStaleVersions } from "./stale-versions.ts";

it("forgets the stale version of a job that a pass finds missing after its deletion", async () => {
  const stale = makeStaleVersions(() => 0);
  const runtime = {
    job: () => undefined,
    staleForMs: stale.waitMs,
    forgetStale: stale.forget,
  } as unknown as KindRuntime;
  const context = { config: { policy: {} } } as unknown as ServiceContext<Config>;
  // Without the job, the test reaches no other dependency.
  const world = { nodes: {}, world: { ends: {} }, groups: {}, queues: {} } as unknown as Parameters<
    typeof makePasses
  >[1];
  stale.record("default/train", "5");
  const pass = makePasses(context, world)(runtime, () => true);
  expect(await pass("default/train", new AbortController().signal)).toEqual({});
  expect(stale.waitMs("default/train", "5")).toBeUndefined();
});
