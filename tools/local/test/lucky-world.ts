import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { V1Pod } from "@kubernetes/client-node";
import { makeClient, connectNats, type Client } from "@muster/bus";
import { findFault } from "@muster/faults";
import { makeKubeCalls, loadKube, type KubeCalls } from "@muster/kube";
import { FarmService, JobService, labels, muster as proto } from "@muster/proto";
import { until } from "@muster/testkit";
import { expect } from "vitest";
import type { Stack } from "../src/stack.ts";
import type { NamedNats } from "../src/stack-nats.ts";
import { runMuster } from "./muster-run.ts";
import {
  listEventNames,
  expectNothingLeft,
  isFinished,
  buildSessionUntilFile,
  buildSmallSession,
  startWorld,
  submitSession,
  buildWaitCommand,
  waitForSession,
  type World,
} from "./stack-world.ts";

const LONG = { timeoutMs: 120_000, everyMs: 100 };
const GOOD = ["QUEUE", "ACCEPT", "PROVISION", "RUN", "DONE"];
const JOBS = { apiVersion: "muster.dev/v1", plural: "jobs", namespace: "default" };
const PODS = { apiVersion: "v1", plural: "pods", namespace: "default" };
/** Three pods of the session, and one each of the job and the set. */
const PODS_OF_ALL = 5;
const PATIENCE = { timeoutMs: 60_000 };

type JobObject = {
  readonly metadata: { readonly name: string };
  readonly status?: { readonly conditions?: readonly { readonly type: string; readonly status: string }[] };
};

/** A stack with one of each kind of work, which runs until the test ends it. */
export type LuckyWorld = AsyncDisposable & {
  readonly stack: Stack;
  readonly directory: string;
  /** Runs a command; rejects when the exit code is not 0. */
  cli(line: string): Promise<string>;
  submit(name: string): Promise<void>;
  /** The reply of NATS to an API request, and to a message of this size. */
  ask(subject: string, body: object): Promise<string>;
  send(subject: string, bytes: number): Promise<string>;
  storage(): Promise<{ readonly storage: number; readonly reserved_storage: number }>;
  /** Checks that the same pods run, every kind of work is healthy, and a new session runs to its end. */
  expectAllGoesOn(name: string): Promise<void>;
  /** Ends all work, and checks that each ends successfully and once. */
  expectGoodEnd(): Promise<void>;
};

/** Uses the caller's NATS server, which the caller may break. */
export async function startLuckyWorld(nats: NamedNats): Promise<LuckyWorld> {
  await using starting = new AsyncDisposableStack();
  const directory = starting.use(await mkdtempDisposable(join(tmpdir(), "muster-luck-"))).path;
  const pools = { drivers: 2, workers: 6 };
  const world = starting.use(await startWorld({ nats, env: { SESSION_EXECUTORS: "2" }, pools }));
  const bus = starting.use(await connectNats({ ...world.stack.nats, name: "test" }));
  const calls = starting.use(makeKubeCalls(loadKube(world.stack.kubeconfig)));
  const farms = makeClient(bus, FarmService);
  const endFile = join(directory, "end");
  const key = join(directory, "key");
  const cli = async (line: string): Promise<string> => {
    const { code, output } = await runMuster(world, line.split(" "));
    expect(code, `${line}: ${output}`).toBe(0);
    return output;
  };

  await submitSession(world, "long", buildSessionUntilFile(endFile));
  const job = jobUntilFile(endFile);
  await makeClient(bus, JobService).submitJob({ requestId: "train", manifestJson: JSON.stringify(job) }, PATIENCE);
  await until("the farm accepts the set", () => farms.applyReplicaSet(webSet(), PATIENCE).then(() => true), LONG);
  await orderLease(cli, directory, key);
  const before = await until(
    "all pods run",
    async () => {
      const running = await runningPods(calls);
      return Object.keys(running).length === PODS_OF_ALL && running;
    },
    LONG,
  );
  const ask = async (subject: string, body: object): Promise<string> =>
    (await bus.connection.request(subject, JSON.stringify(body), PATIENCE_OF_NATS)).string();
  const all = starting.move();
  return {
    stack: world.stack,
    directory,
    cli,
    ask,
    submit: (name) => submitSession(world, name, buildSmallSession({ driverSeconds: 0 })),
    send: async (subject, bytes) =>
      (await bus.connection.request(subject, new Uint8Array(bytes), PATIENCE_OF_NATS)).string(),
    storage: async () => JSON.parse(await ask("$JS.API.INFO", {})) as { storage: number; reserved_storage: number },
    expectAllGoesOn: async (name) => {
      const taken = () => submitSession(world, name, buildSmallSession({ driverSeconds: 0 })).then(() => true);
      await until(`session ${name} is accepted`, taken, LONG);
      expect(listEventNames(await waitForSession(world, name, "is finished", isFinished))).toEqual(GOOD);
      expect(listEventNames(await waitForSession(world, "long", "answers", () => true))).toEqual(GOOD.slice(0, -1));
      await until("the set is healthy", () => isHealthy(farms), LONG);
      expect(JSON.parse(await cli(`lease get --mine --key-file ${key} -o json`))).toMatchObject([{ phase: "ACTIVE" }]);
      await until("only the pods from before run", async () => same(await runningPods(calls), before), LONG);
    },
    expectGoodEnd: () => endAll({ world, calls, farms, cli, endFile, key }),
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

const PATIENCE_OF_NATS = { timeout: 60_000 };

function jobUntilFile(endFile: string) {
  const containers = [{ name: "main", image: "scripted", command: ["node", "-e", buildWaitCommand(endFile)] }];
  const replicaSpecs = { worker: { replicas: 1, pool: "workers", template: { spec: { containers } } } };
  const spec = { runPolicy: { cleanPodPolicy: "All" }, replicaSpecs };
  return { apiVersion: "muster.dev/v1", kind: "Job", metadata: { name: "train" }, spec };
}

function webSet() {
  const containers = [{ name: "main", image: "scripted", command: ["sleep", "100000"] }];
  const templateJson = JSON.stringify({ spec: { terminationGracePeriodSeconds: 1, containers } });
  const allocationStrategy = proto.farm.v1.AllocationStrategy.ALLOCATION_STRATEGY_DYNAMIC;
  const spec = { podId: "web", templateJson, pool: "workers", replicasDesired: 1, allocationStrategy };
  return { requestId: "web", name: "web", spec };
}

async function orderLease(cli: (line: string) => Promise<string>, directory: string, key: string): Promise<void> {
  const metadata = { name: `${Date.now()}-1` };
  const spec = { type: "network", duration: "6h", data: { name: "home" } };
  const file = join(directory, "lease.yaml");
  await writeFile(file, JSON.stringify({ apiVersion: "muster.dev/v1", kind: "Lease", metadata, spec }));
  await cli(`keys new --key-file ${key}`);
  await cli(`lease order -f ${file} --key-file ${key} --wait --timeout 4m`);
}

/** Uids by name. */
async function runningPods(calls: KubeCalls): Promise<Readonly<Record<string, string>>> {
  const { items } = await calls.list<V1Pod>(PODS, { query: { labelSelector: labels.owner } });
  const running = items.filter(
    ({ status, metadata }) => status?.phase === "Running" && metadata?.deletionTimestamp === undefined,
  );
  return Object.fromEntries(running.map(({ metadata }) => [metadata?.name ?? "", metadata?.uid ?? ""]));
}

function same(now: Readonly<Record<string, string>>, before: Readonly<Record<string, string>>): boolean {
  const lines = (of: Readonly<Record<string, string>>): string => Object.entries(of).toSorted().join("\n");
  return lines(now) === lines(before);
}

async function isHealthy(farms: Client<typeof FarmService>): Promise<boolean> {
  const { set } = await farms.getReplicaSet({ name: "web" }, PATIENCE);
  return set?.healthy === 1;
}

async function endAll(parts: {
  readonly world: World;
  readonly calls: KubeCalls;
  readonly farms: Client<typeof FarmService>;
  readonly cli: (line: string) => Promise<string>;
  readonly endFile: string;
  readonly key: string;
}): Promise<void> {
  const { world, calls, farms, cli, endFile, key } = parts;
  await writeFile(endFile, "");
  expect(listEventNames(await waitForSession(world, "long", "is finished", isFinished))).toEqual(GOOD);
  await until(
    "the job has succeeded",
    async () => {
      const { status } = await calls.get<JobObject>(JOBS, "train");
      return status?.conditions?.some(({ type, status: is }) => type === "Succeeded" && is === "True");
    },
    LONG,
  );
  await farms.deleteReplicaSet({ requestId: "end", name: "web", force: true }, PATIENCE);
  const isGone = () =>
    farms.getReplicaSet({ name: "web" }, PATIENCE).then(
      () => false,
      (error: unknown) => findFault(error)?.code === "not_found",
    );
  await until("the set is gone", isGone, LONG);
  const [lease] = JSON.parse(await cli(`lease get --mine --key-file ${key} -o json`)) as { readonly id: string }[];
  await cli(`lease end ${lease?.id ?? ""} --key-file ${key}`);
  await cli(`wait lease/${lease?.id ?? ""} --for=delete --timeout 4m`);
  await expectNothingLeft(world);
}
