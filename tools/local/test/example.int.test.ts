import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { kubeApiServer, kubeAssets } from "@muster/testkit";
import { attachNodes } from "@muster/devcluster";
import { describe, expect, it } from "vitest";
import { ROOT } from "../src/stack.ts";
import { CLUSTERS, expectNothingLeft, startWorld, type World } from "./stack-world.ts";

/** Runs `muster run` on an example against the stack; returns what it printed and how it ended. */
async function musterRun(world: World, example: string): Promise<{ code: number; output: string }> {
  const cli = spawn(process.execPath, [join(ROOT, "apps/cli/src/main.ts"), "run", join(ROOT, "examples", example)], {
    env: world.stack.clientEnv,
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  for (const stream of [cli.stdout, cli.stderr]) {
    stream.setEncoding("utf8").on("data", (chunk: string) => {
      output += chunk;
    });
  }
  const [code] = (await once(cli, "close")) as [number];
  return { code, output };
}

async function expectJobToRun(world: World): Promise<void> {
  const { output, code } = await musterRun(world, "training-job.yaml");
  expect(output).toMatch(/job training SUCCEEDED after/);
  expect(code, output).toBe(0);
  await expectNothingLeft(world);
}

async function expectExamplesToRun(world: World): Promise<void> {
  const good = await musterRun(world, "http-benchmark.yaml");
  expect(good.output).toMatch(/requestsPerSecond\W+[1-9]/);
  expect(good.code, good.output).toBe(0);
  await expectNothingLeft(world);
  const failing = await musterRun(world, "failing-session.yaml");
  expect(failing.code, failing.output).toBe(1);
  expect(failing.output).toContain("COMPONENT_FAILED");
  await expectNothingLeft(world);
}

describe.each(CLUSTERS)("on $on", ({ options }) => {
  it("runs the examples: one that is done, one that fails on purpose", async () => {
    await using world = await startWorld(options);
    await expectExamplesToRun(world);
  });
});

it("runs the example of a job on the embedded cluster, which knows jobs", async () => {
  await using world = await startWorld();
  await expectJobToRun(world);
});

const assets = kubeAssets();
describe.skipIf(!assets.found)(`on a real kube-apiserver (${assets.found ? assets.directory : assets.reason})`, () => {
  it("runs the examples with the embedded scheduler and kubelet", async () => {
    await using server = await kubeApiServer();
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
