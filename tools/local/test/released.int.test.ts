import { execFile } from "node:child_process";
import { mkdtempDisposable, readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { makeRelease } from "@muster/repo/make-release";
import { processEnv, until } from "@muster/testkit";
import { describe, expect, it } from "vitest";
import { ROOT } from "../src/root.ts";
import { clusterTools } from "./cluster-tools.ts";
import { helm } from "./helm.ts";
import { replicaSet, session } from "./installed-work.ts";
import { installMuster, type InstalledWorld, SYSTEM, WORK } from "./installed-world.ts";
import { expectKept, steadyRequests } from "./steady-requests.ts";

const real = process.env["MUSTER_E2E_KUBECONFIG"];
/** A shell command that imports the images of $ARCHIVE into every node. */
const LOAD = process.env["MUSTER_E2E_LOAD_IMAGES"];
const SKIPPED = LOAD === undefined ? " (skipped: MUSTER_E2E_LOAD_IMAGES names no command)" : "";
/** Base image, which the Docker engine has; the work of the test also uses it. */
const BASE = "node:24-bookworm-slim";
const PATIENCE = { timeoutMs: 180_000, everyMs: 300 };
const LONG = { timeout: 1_200_000 };

const run = promisify(execFile);
const { version: OWN } = JSON.parse(await readFile(join(ROOT, "package.json"), "utf8")) as { version: string };
const [OLD, NEW] = [`${OWN}-test.1`, `${OWN}-test.2`] as const;

type Versions = { readonly services: readonly { readonly service: string; readonly versions: readonly string[] }[] };

describe.skipIf(real === undefined)("A release on the real cluster", LONG, () => {
  it.skipIf(LOAD === undefined)(
    `is installed from its archives without a registry, and upgraded while work runs${SKIPPED}`,
    async () => {
      const kubeconfig = real ?? "";
      await using folder = await mkdtempDisposable(join(tmpdir(), "muster-released-"));
      await using tools = await clusterTools(kubeconfig);
      for (const version of [OLD, NEW]) {
        await release(version, join(folder.path, version));
        const archive = join(folder.path, version, `muster-images-${version}.tar`);
        await run("sh", ["-c", LOAD ?? ""], { env: { ...process.env, ARCHIVE: archive } });
      }
      const chartOf = (version: string): string => join(folder.path, version, `muster-${version}.tgz`);
      const command = await installCommand(join(folder.path, OLD, `muster-cli-${OLD}.tgz`), join(folder.path, "home"));

      await using world = await installMuster({
        kubeconfig,
        valuesFile: undefined,
        leaseEnv: {},
        release: { chart: chartOf(OLD), command },
      });
      const test = ["test", "muster", "--namespace", SYSTEM, "--timeout", "3m"];
      expect(await helm(test, tools.env)).toMatch(/muster-test\n[^]*Phase:\s+Succeeded/);
      expect(await versionsOf(world)).toEqual([OLD]);
      await world.muster(`run ${join(ROOT, "examples/http-benchmark.yaml")}`);

      await world.muster(`run --detach ${await world.fileOf("session.json", session("kept", "workers"))}`);
      await world.muster(`apply -f ${await world.fileOf("set.json", replicaSet("kept", "workers"))} --wait`);
      const work = async (): Promise<readonly string[]> =>
        (await world.kubectl(`-n ${WORK} get pods --field-selector status.phase=Running -o name`)).trim().split("\n");
      const before = await until("all work runs", async () => (await work()).length === 3 && work(), PATIENCE);

      await using requests = await steadyRequests(world.nats, {
        prefix: "upgraded",
        server: "workers",
        driver: "drivers",
      });
      await world.upgrade({}, chartOf(NEW));
      await until("all services have the new version", async () => String(await versionsOf(world)) === NEW, PATIENCE);
      const seen = await requests.end();
      expect(seen.away).toEqual([]);
      expect(seen.requests.filter(({ refused }) => refused !== undefined)).toEqual([]);
      expectKept(seen, await requests.existing());
      expect(await work()).toEqual(before);
      await world.muster("cancel kept");
      await world.muster("delete kept --force --wait");
    },
  );
});

async function release(version: string, output: string): Promise<void> {
  await makeRelease({
    version,
    core: OWN,
    registry: "registry.example.com/muster",
    base: BASE,
    output,
    push: false,
    dockerConfig: output,
    signKey: undefined,
    timeS: 1_700_000_000,
    revision: "unknown",
    source: "unknown",
  });
}

/** Resolves with the path of the installed command. */
async function installCommand(archive: string, home: string): Promise<string> {
  const flags = ["--global", "--offline", "--no-audit", "--no-fund", "--prefix", home];
  await run("npm", ["install", ...flags, archive], { env: { ...processEnv(), HOME: home } });
  return join(home, "bin/muster");
}

/** The versions of all replicas of all services, without repetitions. */
async function versionsOf(world: InstalledWorld): Promise<readonly string[]> {
  const { services } = JSON.parse(await world.muster("version -o json")) as Versions;
  return [...new Set(services.flatMap(({ versions }) => versions))];
}
