import { readdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { makeKubeCalls, loadKube, unlessMissing, type KubeCalls } from "@muster/kube";
import { until } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ELASTIC, POOLS } from "../src/elastic.ts";
import { applyAll, readManifests, buildResource } from "../src/manifests.ts";
import { ROOT } from "../src/root.ts";
import { runMuster } from "./muster-run.ts";
import { startWorld, type World } from "./stack-world.ts";

type Manifests = Awaited<ReturnType<typeof readManifests>>;

const EXAMPLES = join(ROOT, "examples");
const LEASES = ["network", "volume", "container", "kubernetes", "machine", "debug"];

const ORDER = "lease order -f FILE --wait --key-file KEY";

/** Every file of examples/, in the order of their dependencies: the command of its README, the exit code, and the output. */
const COMMANDS: readonly (readonly [file: string, command: string, code: number, output: RegExp])[] = [
  ["http-benchmark.yaml", "run FILE", 0, /DONE after[^]*requestsPerSecond/],
  ["failing-session.yaml", "run FILE", 1, /COMPONENT_FAILED/],
  ["prepared-benchmark.yaml", "run FILE", 0, /DONE after[^]*megabytesPerSecond/],
  ["shared-benchmark.yaml", "run FILE", 0, /DONE after[^]*answer +hello/],
  ["training-job.yaml", "run FILE", 0, /job training SUCCEEDED after/],
  ["tfjob.yaml", "run FILE", 0, /tfjob tfjob SUCCEEDED after/],
  ["any-pool-job.yaml", "run FILE", 0, /job any-pool SUCCEEDED after/],
  ["elastic-benchmark.yaml", "run FILE", 0, /DONE after/],
  ["pinned-replica-set.yaml", "apply -f FILE --wait", 0, /replica-set\/web ready/],
  ["pinned-replica-set-roll.yaml", "roll web -f FILE --minimum 1 --follow", 0, /web-2/],
  ...LEASES.map((type) => [`leases/${type}.yaml`, ORDER, 0, /active/i] as const),
  // The local stack has no zdb image, as the file states.
  ["leases/zdb.yaml", ORDER, 1, /PROVISION_ZDB_IMAGE is not set/],
];

/** Applied with kubectl, as its README states. Last, because other jobs need a queue while it exists. */
const APPLIED = "queues.yaml";
/** A job that must leave, and the one for which it does. */
const [YIELDING, URGENT] = ["preemption.yaml", "preemption-urgent.yaml"];

describe("on the local stack", () => {
  let world: World;
  let key: string;

  beforeAll(async () => {
    world = await startWorld({ elastic: ELASTIC, pools: POOLS });
    key = join(dirname(world.stack.kubeconfig), "user.key");
    const made = await runMuster(world, ["keys", "new", "--key-file", key]);
    expect(made.code, made.output).toBe(0);
  }, 180_000);

  afterAll(() => world[Symbol.asyncDispose]());

  it("each file of examples/ has its command here", async () => {
    const files = await readdir(EXAMPLES, { recursive: true });
    expect(files.filter((file) => file.endsWith(".yaml")).sort()).toEqual(
      [...COMMANDS.map(([file]) => file), APPLIED, YIELDING, URGENT].sort(),
    );
  });

  it.each(COMMANDS)(
    "%s works as its README states: muster %s",
    { timeout: 300_000 },
    async (file, command, code, expected) => {
      const path = join(EXAMPLES, file);
      const words = command.split(" ").map((word) => word.replace(/^FILE$/, path).replace(/^KEY$/, key));
      const ended = await runMuster(world, words);
      expect(ended.output).toMatch(expected);
      expect(ended.code, ended.output).toBe(code);
    },
  );

  it(`${APPLIED} works as its README states: kubectl apply and delete`, { timeout: 300_000 }, async () => {
    await using calls = makeKubeCalls(loadKube(world.stack.kubeconfig));
    const objects = await applyExample(calls, APPLIED);
    for (const name of ["queued-a", "queued-b"]) {
      const ended = await runMuster(world, ["wait", `job/${name}`, "--for=condition=Succeeded", "--timeout=2m"]);
      expect(ended.code, ended.output).toBe(0);
    }
    await deleteAll(calls, objects);
  });

  it(`${YIELDING} leaves for ${URGENT} and resumes, as their README states`, { timeout: 300_000 }, async () => {
    await using calls = makeKubeCalls(loadKube(world.stack.kubeconfig));
    const untilCondition = async (name: string, condition: string): Promise<void> => {
      const ended = await runMuster(world, ["wait", `job/${name}`, `--for=condition=${condition}`, "--timeout=2m"]);
      expect(ended.code, ended.output).toBe(0);
    };
    const yielding = await applyExample(calls, YIELDING);
    const logs = async (): Promise<string> => (await runMuster(world, ["logs", "job/yielding", "worker-0"])).output;
    await until("it has begun", async () => (await logs()).includes("begins"), { timeoutMs: 120_000 });
    const urgent = await applyExample(calls, URGENT);
    await untilCondition("yielding", "Preempted");
    await untilCondition("urgent", "Succeeded");
    await untilCondition("yielding", "Succeeded");
    expect(await logs()).toMatch(/resumes at step \d+[^]*done/);
    await deleteAll(calls, [...yielding, ...urgent]);
  });
});

async function applyExample(calls: KubeCalls, file: string): Promise<Manifests> {
  const objects = (await readManifests(join(EXAMPLES, file))).map((object) =>
    object.kind === "Job" ? { ...object, metadata: { ...object.metadata, namespace: "default" } } : object,
  );
  await applyAll(calls, objects);
  return objects;
}

async function deleteAll(calls: KubeCalls, objects: Manifests): Promise<void> {
  for (const object of objects.toReversed()) {
    const [resource, name] = [buildResource(object), object.metadata?.name ?? ""];
    await unlessMissing(calls.delete(resource, name));
    const isGone = async (): Promise<boolean> => (await unlessMissing(calls.get(resource, name))) === undefined;
    await until(`${object.kind} ${name} is gone`, isGone, { timeoutMs: 60_000 });
  }
}
