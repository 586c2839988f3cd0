import { execFile } from "node:child_process";
import { glob, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { serviceNames } from "@muster/proto";
import { buildProcessEnv } from "@muster/testkit";
import { describe, expect, it } from "vitest";
import { isPlanted } from "./planted.ts";

const ROOT = join(import.meta.dirname, "../../..");
const OUTPUT_MAX_BYTES = 64 * 1024 * 1024;

/** Runs nx with a clean environment, so that the variables of this test run do not affect it. */
async function nx(words: string, env: Readonly<Record<string, string>> = {}): Promise<string> {
  const { PATH, NODE_COMPILE_CACHE } = buildProcessEnv();
  const own = { PATH, NODE_COMPILE_CACHE, HOME: process.env["HOME"], NX_DAEMON: "false", NX_TUI: "false", ...env };
  const options = { cwd: ROOT, env: own, maxBuffer: OUTPUT_MAX_BYTES };
  return (await promisify(execFile)(join(ROOT, "node_modules/.bin/nx"), words.split(" "), options)).stdout;
}

type Graph = { readonly graph: { readonly dependencies: Readonly<Record<string, readonly { target: string }[]>> } };

describe("a cached test run", () => {
  it("depends on the programs that the tests of a project start by their path", async () => {
    const { graph } = JSON.parse(await nx("graph --print")) as Graph;
    const targetsOf = (project: string): string[] =>
      (graph.dependencies[project] ?? []).map(({ target }) => target).toSorted();
    expect(targetsOf("session-controller")).toEqual(expect.arrayContaining(["reservation-manager", "watcher"]));
    expect(targetsOf("job-controller")).toEqual(expect.arrayContaining(["reservation-manager", "watcher"]));
    expect(targetsOf("replication-farm")).toEqual(expect.arrayContaining(["cli", "reservation-manager", "watcher"]));
    expect(targetsOf("provision-engine")).toContain("reservation-manager");
    expect(targetsOf("node-scaler")).toEqual(expect.arrayContaining(["cli", "reservation-manager", "watcher"]));
    expect(targetsOf("cli")).toEqual(expect.arrayContaining(["provision-engine", "reservation-manager"]));
    expect(targetsOf("kube")).toContain("devcluster");
    expect(targetsOf("local")).toEqual(expect.arrayContaining([...serviceNames, "cli", "devcluster"].toSorted()));
    expect(targetsOf("watcher")).not.toContain("reservation-manager");
  });

  it("depends on the files of the repository that its tests read", async () => {
    const inputsOf = async (project: string): Promise<readonly string[]> => {
      const { namedInputs } = JSON.parse(await nx(`show project ${project} --json`)) as {
        namedInputs: { default: readonly string[] };
      };
      return namedInputs.default;
    };
    expect(await inputsOf("local")).toContain("{workspaceRoot}/docker-compose.yml");
    expect(await inputsOf("repo")).toEqual(
      expect.arrayContaining([
        "{workspaceRoot}/.ci/**/*",
        "{workspaceRoot}/apps/cli/**/*",
        "{workspaceRoot}/libs/bus/**/*",
      ]),
    );
  });

  it("depends on each variable that selects or skips tests", async () => {
    const { namedInputs } = JSON.parse(await readFile(join(ROOT, "nx.json"), "utf8")) as {
      namedInputs: { conditions: readonly { readonly env?: string }[] };
    };
    const declared = namedInputs.conditions.map(({ env }) => env);
    const read = new Set<string>();
    for await (const file of glob("{apps,libs,tools}/*/{src,test}/**/*.ts", { cwd: ROOT })) {
      if (isPlanted(file) || !/\/test\/|\.test\.ts$|^libs\/(?:testkit|nats-server)\/|^tools\/local\//.test(file))
        continue;
      const text = await readFile(join(ROOT, file), "utf8");
      for (const [, name = ""] of text.matchAll(/\b(?:process\.)?env\["([A-Z_]+)"\]/g)) read.add(name);
    }
    const conditions = [...read].filter((name) =>
      /^(?:CI|KUBEBUILDER_ASSETS|MUSTER_(?!LO|COMPOSE|TAG|NATS_(?!SER)))/.test(name),
    );
    expect(conditions).toContain("MUSTER_TESTS_WITHOUT");
    expect(declared).toEqual(expect.arrayContaining(conditions));
  });

  it("is reused until a missing program is installed", async () => {
    const assets = await mkdtemp(join(tmpdir(), "muster-assets-"));
    try {
      // Concurrent tests build images, which are conditions too, so no engine is found here.
      const env = { KUBEBUILDER_ASSETS: assets, DOCKER_HOST: `unix://${join(assets, "no-engine.sock")}` };
      const test = () => nx("run faults:test --excludeTaskDependencies --output-style=static", env);
      const fromCache = /faults:test {2}\[.*\bcache\b/;
      const planted = join(ROOT, "libs/faults/src/planted-n.ts");
      expect(await test()).not.toMatch(fromCache);
      await writeFile(planted, "");
      try {
        expect(await test()).toMatch(fromCache);
      } finally {
        await rm(planted);
      }
      await writeFile(join(assets, "kube-apiserver"), "");
      expect(await test()).not.toMatch(fromCache);
    } finally {
      await rm(assets, { recursive: true });
    }
  });
});
