import { startKubeApiServer, findKubeAssets } from "@muster/testkit";
import { attachNodes } from "@muster/devcluster";
import { describe, expect, it } from "vitest";
import { startMuster } from "./muster-run.ts";
import { CLUSTERS, expectNothingLeft, startWorld, type World } from "./stack-world.ts";

async function expectJobToRun(world: World): Promise<void> {
  const { output, code } = await startMuster(world, "examples/training-job.yaml");
  expect(output).toMatch(/job training SUCCEEDED after/);
  expect(code, output).toBe(0);
  await expectNothingLeft(world);
}

async function expectExamplesToRun(world: World): Promise<void> {
  const good = await startMuster(world, "examples/http-benchmark.yaml");
  expect(good.output).toMatch(/requestsPerSecond\W+[1-9]/);
  expect(good.code, good.output).toBe(0);
  await expectNothingLeft(world);
  const failing = await startMuster(world, "examples/failing-session.yaml");
  expect(failing.code, failing.output).toBe(1);
  expect(failing.output).toContain("COMPONENT_FAILED");
  await expectNothingLeft(world);
}

describe.each(CLUSTERS)("on $on", ({ options }) => {
  it("runs the examples: one succeeds, one fails on purpose", async () => {
    await using world = await startWorld(options);
    await expectExamplesToRun(world);
  });
});

it("runs the example of a job on the embedded cluster, which has the definition", async () => {
  await using world = await startWorld();
  await expectJobToRun(world);
});

const assets = findKubeAssets();
describe.skipIf(!assets.found)(`on a real kube-apiserver (${assets.found ? assets.directory : assets.reason})`, () => {
  it("runs the examples with the embedded scheduler and kubelet", async () => {
    await using server = await startKubeApiServer();
    await using _nodes = await attachNodes({
      kubeconfig: server.kubeconfig,
      pools: [
        { name: "drivers", nodes: 1 },
        { name: "workers", nodes: 4 },
      ],
    });
    await using world = await startWorld({ kubeconfig: server.kubeconfig, installDefinitions: true });
    await expectExamplesToRun(world);
    await expectJobToRun(world);
  });
});
