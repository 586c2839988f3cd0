import { execFile, execFileSync } from "node:child_process";
import { mkdtemp, readdir, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { buildProcessEnv } from "@muster/testkit";
import { afterAll, beforeAll, expect, it } from "vitest";

const CLI = join(import.meta.dirname, "..");
const BIN = join(CLI, "bin/muster.mjs");
const BUNDLER = join(CLI, "../../tools/repo/bundle-command.mjs");
const run = promisify(execFile);

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "muster-start-"));
});
afterAll(() => rm(directory, { recursive: true, force: true }));

const version = async (bin: string): Promise<string> =>
  (await run(process.execPath, [bin, "version", "--client"], { env: buildProcessEnv() })).stdout;

it("starts in the repository, and rebuilds a bundle that is older than its sources", async () => {
  const expected = expect.stringMatching(/^muster \d+\.\d+\.\d+\nnode /) as unknown;
  expect(await version(BIN)).toEqual(expected);
  const stale = join(CLI, "dist/stale.cjs");
  await writeFile(stale, `//{"hash":"0","inputs":[["package.json",0,0]]}\nthrow new Error("stale");`);
  await rename(stale, join(CLI, "dist/muster.cjs"));
  expect(await version(BIN)).toEqual(expected);
});

it("stores its compiled code on the first run, and starts from it", async () => {
  await version(BIN);
  const stored = (await readdir(join(CLI, "dist"))).filter((name) => name.endsWith(".code"));
  expect(stored.filter((name) => name.includes(process.version))).toHaveLength(1);
  expect(await version(BIN)).toContain(process.versions.node);
});

it("installs from its archive, without a repository and without dependencies", async () => {
  execFileSync(process.execPath, [BUNDLER, "--pack", directory], { stdio: "ignore" });
  const archive = (await readdir(directory)).find((name) => name.endsWith(".tgz")) ?? "";
  const flags = ["--global", "--offline", "--no-audit", "--no-fund", "--prefix", directory];
  await run("npm", ["install", ...flags, join(directory, archive)], { env: { ...process.env } });
  const { stdout } = await run(join(directory, "bin/muster"), ["schema", "session"], { env: buildProcessEnv() });
  expect(JSON.parse(stdout)).toMatchObject({ title: expect.any(String) as unknown });
  const probe = join(directory, "probe.cjs");
  await writeFile(probe, `process.once("exit", () => console.error(require("node:events").defaultMaxListeners))`);
  const warned = await run(join(directory, "bin/muster"), ["version", "--client"], {
    env: { ...buildProcessEnv(), NODE_OPTIONS: `--require=${probe}` },
  });
  expect(warned.stderr, "Node 20 warns of no listeners").toBe("0\n");
  // With an endpoint for spans it loads exporters, which require parts of their own.
  for (const tracing of [{}, { OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:1" }]) {
    const refused = run(join(directory, "bin/muster"), ["get", "sessions"], {
      env: { ...buildProcessEnv(), ...tracing, MUSTER_NATS_URL: "nats://127.0.0.1:1" },
    });
    await expect(refused).rejects.toMatchObject({
      code: 3,
      stderr: expect.stringContaining("cannot connect") as unknown,
    });
  }
}, 120_000);
