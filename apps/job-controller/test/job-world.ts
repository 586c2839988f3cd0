import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import type { V1CustomResourceDefinition, V1Pod } from "@kubernetes/client-node";
import { makeClient, connectNats, type Client, type NatsBus } from "@muster/bus";
import { attachNodes } from "@muster/devcluster";
import { makeKubeCalls, toKubeFault, loadKube, type KubeCalls } from "@muster/kube";
import { buckets, JobService, ReservationService } from "@muster/proto";
import { jsonText, openBucket } from "@muster/store";
import {
  startTestNats,
  buildProcessEnv,
  type TestApiServer,
  type TestNats,
  until,
  makePatientClient,
} from "@muster/testkit";
import { parse } from "yaml";
import type { StatusJson } from "../src/adapters/status-json.ts";

const APPS = fileURLToPath(new URL("../../", import.meta.url));
const CRDS = fileURLToPath(new URL("../../../deploy/crds/", import.meta.url));
const NAMESPACE = "default";

/** A job as tests read it. */
export type TestJob = {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly uid?: string;
    readonly resourceVersion?: string;
    readonly annotations?: Record<string, string>;
  };
  readonly spec: object;
  readonly status?: StatusJson;
};

export type Controller = {
  readonly pid: number;
  /** Sends SIGKILL: the process ends without notice. */
  kill(): Promise<void>;
  /** Sends SIGTERM: the process finishes work in flight. */
  stop(): Promise<void>;
};

export type WorldOptions = {
  /** Starts nodes with these names and counts; by default, nodes whose pods are processes. */
  readonly startNodes?: (kubeconfig: string, pools: Readonly<Record<string, number>>) => Promise<AsyncDisposable>;
  /** Files of deploy/crds; by default Muster's own. */
  readonly definitions?: readonly string[];
  /** Replaces the real ledger, which then does not run as a process. */
  readonly openLedger?: (bus: NatsBus, calls: KubeCalls) => Promise<AsyncDisposable>;
};

/** A bus, an API server with nodes whose pods are processes, the watcher, the ledger, and as many controllers as a test starts. */
export type JobWorld = AsyncDisposable & {
  readonly kubeconfig: string;
  readonly calls: KubeCalls;
  readonly jobs: Client<typeof JobService>;
  readonly ledger: Client<typeof ReservationService>;
  readonly nats: TestNats;
  /** Starts another process of the ledger; the first one is running. */
  readonly firstLedger: Controller;
  startLedger(): Promise<Controller>;
  startController(env?: Readonly<Record<string, string>>): Promise<Controller>;
  /** Returns the process id of the latest controller to acquire the lock; undefined before any has. */
  leaderPid(): Promise<number | undefined>;
  create(job: TestJob): Promise<TestJob>;
  get(name: string, plural?: string): Promise<TestJob | undefined>;
  patch(name: string, body: object, subresource?: string): Promise<void>;
  remove(name: string): Promise<void>;
  pods(job: string): Promise<V1Pod[]>;
  /** Waits until this condition of the job is True, and returns the job. */
  untilCondition(name: string, type: string, plural?: string): Promise<TestJob>;
  /** Waits until the ledger has no unit of jobs, and no pod of this job runs. */
  untilNothingLeft(job: string): Promise<void>;
};

/** Starts everything but controllers, and stops the API server at disposal. */
export async function openJobWorld(
  server: TestApiServer,
  pools: Readonly<Record<string, number>>,
  { startNodes, definitions = ["muster.dev_jobs.yaml"], openLedger }: WorldOptions = {},
): Promise<JobWorld> {
  await using starting = new AsyncDisposableStack();
  starting.use(server);
  const { kubeconfig } = server;
  const calls = starting.use(makeKubeCalls(loadKube(kubeconfig)));
  for (const file of definitions) await installDefinition(calls, file);
  const named = Object.entries(pools).map(([name, nodes]) => ({ name, nodes }));
  const attach = (): Promise<AsyncDisposable> =>
    attachNodes({ kubeconfig, pools: named, stopGraceMs: 200, ...server.nodeOptions });
  starting.use(await (startNodes?.(kubeconfig, pools) ?? attach()));
  const nats = starting.use(await startTestNats());
  let stack = starting;
  const start = async (app: string, more: Readonly<Record<string, string>> = {}): Promise<ChildProcess> => {
    const child = await startApp(app, {
      MUSTER_NATS_URL: nats.url,
      MUSTER_NATS_TOKEN: nats.token,
      MUSTER_KUBECONFIG: kubeconfig,
      MUSTER_LOG_LEVEL: process.env["MUSTER_LOG_LEVEL"] ?? "error",
      ...more,
    });
    stack.defer(() => ended(child, "SIGKILL"));
    return child;
  };
  const bus = starting.use(await connectNats({ url: nats.url, token: nats.token, name: "test" }));
  await start("watcher");
  const startLedger = async (): Promise<Controller> => controlOf(await start("reservation-manager"));
  const firstLedger = openLedger === undefined ? await startLedger() : NO_PROCESS;
  if (openLedger !== undefined) starting.use(await openLedger(bus, calls));
  const ledger = makePatientClient(makeClient(bus, ReservationService));
  const known = async (): Promise<boolean> => {
    const { pools: found } = await ledger.listPools({});
    return Object.entries(pools).every(([pool, count]) =>
      found.some(({ name, capacity }) => name === pool && capacity === count),
    );
  };
  await until("the ledger knows every machine", known, { timeoutMs: 100_000 });
  const locks = await openBucket(bus.connection, { name: buckets.locks, codec: jsonText });
  stack = starting.move();

  const jobsOf = (plural: string) => ({
    apiVersion: plural === "jobs" ? "muster.dev/v1" : "kubeflow.org/v1",
    plural,
    namespace: NAMESPACE,
  });
  const pods = async (job: string): Promise<V1Pod[]> => {
    const { items } = await calls.list<V1Pod>({ apiVersion: "v1", plural: "pods", namespace: NAMESPACE });
    return items.filter(({ metadata }) => metadata?.ownerReferences?.some(({ name }) => name === job));
  };
  const get = async (name: string, plural = "jobs"): Promise<TestJob | undefined> => {
    try {
      return await calls.get<TestJob>(jobsOf(plural), name);
    } catch (error) {
      if (toKubeFault(error)?.code === "not_found") return undefined;
      throw error;
    }
  };
  return {
    kubeconfig,
    calls,
    jobs: makePatientClient(makeClient(bus, JobService)),
    ledger,
    nats,
    firstLedger,
    startLedger,
    get,
    pods,
    startController: async (env = {}) => {
      const child = await start("job-controller", {
        JOB_LOCK_TTL_MS: "3000",
        JOB_RESTART_BACKOFF_MS: "100",
        JOB_REFRESH_MS: "500",
        ...env,
      });
      return controlOf(child);
    },
    leaderPid: async () => {
      const { holder = "" } = ((await locks.get("job-controller"))?.value ?? {}) as { readonly holder?: string };
      const pid = holder.split("-").at(-2);
      return pid === undefined ? undefined : Number(pid);
    },
    create: (job) => calls.create<TestJob>(jobsOf(`${job.kind.toLowerCase()}s`), job),
    patch: async (name, body, subresource) => {
      await calls.patch(
        jobsOf("jobs"),
        name,
        { kind: "merge", body },
        subresource === undefined ? {} : { subresource },
      );
    },
    remove: (name) => calls.delete(jobsOf("jobs"), name),
    untilCondition: async (name, type, plural = "jobs") =>
      await until(
        `job ${name} is ${type}`,
        async () => {
          const job = await get(name, plural);
          return job?.status?.conditions?.some((each) => each.type === type && each.status === "True") === true && job;
        },
        { timeoutMs: 90_000 },
      ),
    untilNothingLeft: async (job) => {
      const gone = async (): Promise<boolean> => {
        const { reservations } = await ledger.listReservations({ ownerKind: "job" });
        const running = (await pods(job)).filter(
          ({ status }) => status?.phase !== "Succeeded" && status?.phase !== "Failed",
        );
        return reservations.length === 0 && running.length === 0;
      };
      await until(`nothing of ${job} is left`, gone, { timeoutMs: 60_000 });
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

const DEFINITIONS = { apiVersion: "apiextensions.k8s.io/v1", plural: "customresourcedefinitions" };

/** Installs a file of deploy/crds, and waits until its kind is served. Returns the definition's name. */
export async function installDefinition(calls: KubeCalls, file: string): Promise<string> {
  const definition = parse(await readFile(`${CRDS}${file}`, "utf8")) as V1CustomResourceDefinition;
  await calls.create(DEFINITIONS, definition);
  const name = definition.metadata?.name ?? "";
  const established = async (): Promise<boolean> => {
    const { status } = await calls.get<V1CustomResourceDefinition>(DEFINITIONS, name);
    return status?.conditions?.some(({ type, status: is }) => type === "Established" && is === "True") === true;
  };
  await until(`${file} is established`, established, { timeoutMs: 30_000 });
  return name;
}

/** Deletes the definition of this name, with its objects. */
export async function uninstallDefinition(calls: KubeCalls, name: string): Promise<void> {
  await calls.delete(DEFINITIONS, name);
  const isGone = (): Promise<boolean> =>
    calls.get(DEFINITIONS, name).then(
      () => false,
      (error: unknown) => toKubeFault(error)?.code === "not_found",
    );
  await until(`${name} is gone`, isGone, { timeoutMs: 30_000 });
}

async function startApp(app: string, env: Readonly<Record<string, string>>): Promise<ChildProcess> {
  const child = spawn(process.execPath, [`${APPS}${app}/src/main.ts`], {
    env: { ...buildProcessEnv(), ...env },
    stdio: ["ignore", "inherit", "inherit"],
  });
  await once(child, "spawn");
  return child;
}

const NO_PROCESS: Controller = { pid: 0, kill: () => Promise.resolve(), stop: () => Promise.resolve() };

function controlOf(child: ChildProcess): Controller {
  return { pid: child.pid ?? 0, kill: () => ended(child, "SIGKILL"), stop: () => ended(child, "SIGTERM") };
}

async function ended(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, "exit");
  child.kill(signal);
  await exit;
}
