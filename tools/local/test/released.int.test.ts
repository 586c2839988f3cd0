import { execFile } from "node:child_process";
import { mkdtempDisposable, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { makeRelease, type ReleaseOptions } from "@muster/repo/make-release";
import { startRegistry } from "@muster/repo/registry";
import { buildProcessEnv, until } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ROOT } from "../src/root.ts";
import { makeClusterTools, type ClusterTools } from "./cluster-tools.ts";
import { prepareComposeStack } from "./containers.ts";
import { runHelm } from "./helm.ts";
import { buildReplicaSet, buildSession } from "./installed-work.ts";
import { startChartNats, installMuster, type InstalledWorld, reachNats, SYSTEM, WORK } from "./installed-world.ts";
import { runMuster } from "./muster-run.ts";
import { expectKept, startSteadyRequests } from "./steady-requests.ts";

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

/** Made by the installation, and named by the page on installation where it is kept. */
const DEFINITIONS = "jobs.muster.dev queues.muster.dev";
const EXAMPLE = join(ROOT, "examples/http-benchmark.yaml");

type Versions = { readonly services: readonly { readonly service: string; readonly versions: readonly string[] }[] };

describe.skipIf(real === undefined)("A release on the real cluster", LONG, () => {
  const kubeconfig = real ?? "";
  const stack = new AsyncDisposableStack();
  let folder: string;
  let tools: ClusterTools;
  let command: string;
  const fileOf = (version: string, name: string): string => join(folder, version, name);
  const chartOf = (version: string): string => fileOf(version, `muster-${version}.tgz`);

  beforeAll(async () => {
    if (LOAD === undefined) return;
    folder = stack.use(await mkdtempDisposable(join(tmpdir(), "muster-released-"))).path;
    tools = stack.use(await makeClusterTools(kubeconfig));
    // The nodes pull the images of the old version by their digests, and get those of the new one from the archive.
    const registry = stack.use(await startRegistry());
    await writeFile(join(folder, "config.json"), registry.dockerConfig);
    await release(OLD, join(folder, OLD), { registry: `${registry.host}/muster`, push: true, dockerConfig: folder });
    await release(NEW, join(folder, NEW));
    const archive = fileOf(NEW, `muster-images-${NEW}.tar`);
    await run("sh", ["-c", LOAD], { env: { ...process.env, ARCHIVE: archive } });
    command = await installCommand(fileOf(OLD, `muster-cli-${OLD}.tgz`), join(folder, "home"));
  }, LONG.timeout);
  afterAll(() => stack.disposeAsync());

  it.skipIf(LOAD === undefined)(
    `is installed from a registry, upgraded without one and rolled back under load, and uninstalled without a trace${SKIPPED}`,
    async () => {
      {
        await using world = await installMuster({
          kubeconfig,
          valuesFile: undefined,
          leaseEnv: {},
          release: { chart: chartOf(OLD), command },
        });
        const test = ["test", "muster", "--namespace", SYSTEM, "--timeout", "3m"];
        expect(await runHelm(test, tools.env)).toMatch(/muster-test\n[^]*Phase:\s+Succeeded/);
        await world.muster(`run ${EXAMPLE}`);
        await upgradeAndRollBack(world, chartOf(NEW), tools);
      }
      await tools.kubectl(`delete crd ${DEFINITIONS}`);
      expect(await leftOf(tools)).toEqual([]);
    },
  );

  it.skipIf(LOAD === undefined)(
    `is installed by its manifests without Helm, and deleted by them without a trace${SKIPPED}`,
    async () => {
      await using starting = new AsyncDisposableStack();
      const manifests = fileOf(NEW, `muster-${NEW}.yaml`);
      const nats = await startChartNats(kubeconfig, tools.kubectl, starting);
      await tools.kubectl(
        `annotate storageclass ${nats.storageClass} storageclass.kubernetes.io/is-default-class=true`,
      );
      starting.defer(() => tools.kubectl(`delete -f ${manifests} --ignore-not-found`).then(() => undefined));
      await tools.kubectl(`apply --server-side -f ${manifests}`);
      await tools.kubectl(`-n ${SYSTEM} wait --for=condition=available deployment --all --timeout 5m`);
      {
        await using reached = new AsyncDisposableStack();
        const variables = await reachNats(nats, tools, reached);
        await runBenchmark({ ...tools.env, ...variables }, command, EXAMPLE);
      }
      await tools.kubectl(`delete -f ${manifests}`);
      expect(await leftOf(tools)).toEqual([]);
    },
  );

  it.skipIf(LOAD === undefined)(
    `starts by its Compose file from the registry, and runs an example${SKIPPED}`,
    async () => {
      await run("tar", ["-xzf", fileOf(OLD, `muster-compose-${OLD}.tgz`), "-C", folder]);
      const unpacked = join(folder, `muster-compose-${OLD}`);
      await using containers = await prepareComposeStack(unpacked);
      await containers.compose("up", "--wait");
      await runBenchmark(containers.clientEnv, command, join(unpacked, "examples/http-benchmark.yaml"));
    },
  );
});

/** Upgrades, and rolls back, while work runs and requests arrive. No request is refused, no work lost. */
async function upgradeAndRollBack(world: InstalledWorld, chart: string, { env }: ClusterTools): Promise<void> {
  const hasVersion = (version: string) =>
    until(`all services are ${version}`, async () => String(await versionsOf(world)) === version, PATIENCE);
  await hasVersion(OLD);
  await world.muster(`run --detach ${await world.fileOf("session.json", buildSession("kept", "workers"))}`);
  await world.muster(`apply -f ${await world.fileOf("set.json", buildReplicaSet("kept", "workers"))} --wait`);
  const work = async (): Promise<readonly string[]> =>
    (await world.kubectl(`-n ${WORK} get pods --field-selector status.phase=Running -o name`)).trim().split("\n");
  const before = await until("all work runs", async () => (await work()).length === 3 && work(), PATIENCE);

  const options = { prefix: "upgraded", server: "workers", driver: "drivers" };
  await using requests = await startSteadyRequests(world.nats, options);
  await world.upgrade({}, chart);
  await hasVersion(NEW);
  await runHelm(["rollback", "muster", "--namespace", SYSTEM, "--timeout", "5m", "--wait"], env);
  await hasVersion(OLD);
  const seen = await requests.end();
  expect(seen.away).toEqual([]);
  expect(seen.requests.filter(({ refused }) => refused !== undefined)).toEqual([]);
  expectKept(seen, await requests.existing());
  expect(await work()).toEqual(before);
  await world.muster("cancel kept");
  await world.muster("delete kept --force --wait");
}

/** Runs the file with the command of the release, and expects a result. */
async function runBenchmark(clientEnv: NodeJS.ProcessEnv, program: string, file: string): Promise<void> {
  const ended = await runMuster({ stack: { clientEnv }, program }, ["run", file]);
  expect(ended).toMatchObject({ code: 0, output: expect.stringMatching(/requestsPerSecond +[1-9]/) as string });
}

/** Objects of the whole cluster with the name of Muster, except those that the tests create. */
async function leftOf({ kubectl }: ClusterTools): Promise<readonly string[]> {
  const kinds = (await kubectl("api-resources --namespaced=false --verbs=list -o name")).trim().split("\n");
  const lists = await kubectl(`get ${kinds.join(",")} -o name --ignore-not-found`);
  return lists.split("\n").filter((name) => /muster/.test(name) && !/muster-e2e|namespace\/muster-work$/.test(name));
}

async function release(version: string, output: string, more: Partial<ReleaseOptions> = {}): Promise<void> {
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
    ...more,
  });
}

/** Resolves with the path of the installed command. */
async function installCommand(archive: string, home: string): Promise<string> {
  const flags = ["--global", "--offline", "--no-audit", "--no-fund", "--prefix", home];
  await run("npm", ["install", ...flags, archive], { env: { ...buildProcessEnv(), HOME: home } });
  return join(home, "bin/muster");
}

/** The versions of all replicas of all services, without repetitions. */
async function versionsOf(world: InstalledWorld): Promise<readonly string[]> {
  const { services } = JSON.parse(await world.muster("version -o json")) as Versions;
  return [...new Set(services.flatMap(({ versions }) => versions))];
}
