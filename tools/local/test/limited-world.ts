import { randomBytes } from "node:crypto";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { V1Pod } from "@kubernetes/client-node";
import { makeClient, type Client, connectNats } from "@muster/bus";
import { makeKubeCalls, toKubeFault, loadKube, type KubeCalls } from "@muster/kube";
import { JobService, NodeService, ReservationService, SessionService } from "@muster/proto";
import { SERVICES } from "@muster/repo/services";
import { startTestNats, buildProcessEnv, until, makePatientClient } from "@muster/testkit";
import { waitForService, startChild } from "../src/child.ts";
import { ROOT } from "../src/root.ts";
import { applyAll, readManifests, buildResource } from "../src/manifests.ts";
import { grantAccess } from "../src/cluster-access.ts";

const NAMESPACE = "default";
const DEFINITIONS = ["deploy/crds/muster.dev_jobs.yaml"];

export type Condition = { readonly type: string; readonly status: string; readonly message?: string };

/** The fields of a job of any kind that the tests read. */
export type JobObject = {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly spec: object;
  readonly status?: { readonly conditions?: readonly Condition[] };
};

/** The services as processes on the user's cluster, each with only its rights of deploy/kubernetes. */
export type LimitedWorld = AsyncDisposable & {
  /** Client with the rights of the cluster's kubeconfig. */
  readonly calls: KubeCalls;
  readonly nodes: Client<typeof NodeService>;
  readonly sessions: Client<typeof SessionService>;
  readonly jobs: Client<typeof JobService>;
  readonly ledger: Client<typeof ReservationService>;
  /** Creates the job; disposal removes it with everything that it owns. */
  createJob(job: JobObject): Promise<void>;
  /** Removes the objects that `createJob` has created, with everything that they own. */
  removeJobs(): Promise<void>;
  exists(job: JobObject): Promise<boolean>;
  /** Waits until the condition is True. Rejects as soon as the job fails instead. */
  untilCondition(job: JobObject, type: string): Promise<void>;
  /** The running pods of the job, by name. */
  runningPods(job: JobObject): Promise<readonly V1Pod[]>;
  /** Log lines of the services about requests that the API server forbids. */
  refusals(): Promise<readonly string[]>;
};

export type LimitedOptions = {
  /** Files of more CustomResourceDefinitions. */
  readonly definitions?: readonly string[];
  /** The cluster ends with the test, so nothing in it needs to be removed. */
  readonly throwaway?: boolean;
  /** Files of deploy/kubernetes that grant more rights. */
  readonly rights?: readonly string[];
  /** Additional variables for the services. */
  readonly env?: Readonly<Record<string, string>>;
};

export async function startLimitedWorld(kubeconfig: string, more: LimitedOptions = {}): Promise<LimitedWorld> {
  await using starting = new AsyncDisposableStack();
  const directory = await mkdtemp(join(tmpdir(), "muster-limited-"));
  starting.defer(() => rm(directory, { recursive: true, force: true }));
  const calls = starting.use(makeKubeCalls(loadKube(kubeconfig)));
  for (const file of [...DEFINITIONS, ...(more.definitions ?? [])]) await applyAll(calls, await readManifests(file));
  const { files: rights } = await grantAccess(kubeconfig, directory, { more: more.rights ?? [] });
  // Cluster-wide rights are removed from a cluster that is used afterwards.
  starting.defer(async () => {
    for (const file of [...SERVICES.map((service) => `${service}.yaml`), ...(more.rights ?? [])])
      for (const object of await readManifests(`deploy/kubernetes/${file}`))
        if (object.kind?.startsWith("ClusterRole") === true)
          await calls.delete(buildResource(object), object.metadata?.name ?? "").catch(ifNotThere);
  });
  const nats = starting.use(await startTestNats());
  const children = SERVICES.map((service) => {
    const logFile = join(directory, `${service}.log`);
    const env = {
      ...buildProcessEnv(),
      HOME: process.env["HOME"],
      MUSTER_NATS_URL: nats.url,
      MUSTER_NATS_TOKEN: nats.token,
      MUSTER_KUBECONFIG: rights.get(service),
      MUSTER_NAMESPACE: NAMESPACE,
      MUSTER_HTTP_ADDR: "127.0.0.1:0",
      GATEWAY_ADDR: "127.0.0.1:0",
      JOB_RESTART_BACKOFF_MS: "500",
      PROVISION_KEY: randomBytes(32).toString("hex"),
      ...more.env,
    };
    return startChild({ name: service, entry: join(ROOT, `apps/${service}/src/main.ts`), env, logFile });
  });
  starting.defer(async () => {
    await Promise.all(children.map((child) => child.stop()));
  });
  const signal = AbortSignal.timeout(180_000);
  await Promise.all(children.map((child) => waitForService(child, { timeoutMs: 180_000, signal })));
  const bus = starting.use(await connectNats({ url: nats.url, token: nats.token, name: "test" }));
  const ledger = makePatientClient(makeClient(bus, ReservationService));
  await until("the ledger knows the nodes", async () => {
    const { pools } = await ledger.listPools({});
    return pools.some(({ capacity }) => capacity > 0);
  });
  const all = starting.move();
  const podsOf = async ({ metadata }: JobObject): Promise<readonly V1Pod[]> => {
    const { items } = await calls.list<V1Pod>({ apiVersion: "v1", plural: "pods", namespace: NAMESPACE });
    return items.filter((pod) => pod.metadata?.ownerReferences?.some(({ name }) => name === metadata.name) === true);
  };
  const created: JobObject[] = [];
  const removeJobs = async (): Promise<void> => {
    for (const job of created) {
      await calls.delete(jobResource(job), job.metadata.name, { propagationPolicy: "Background" }).catch(ifNotThere);
      await until(`the pods of ${job.metadata.name} are gone`, async () => (await podsOf(job)).length === 0, {
        timeoutMs: 60_000,
      });
    }
  };
  all.defer(removeJobs);
  return {
    calls,
    nodes: makePatientClient(makeClient(bus, NodeService)),
    sessions: makePatientClient(makeClient(bus, SessionService)),
    jobs: makePatientClient(makeClient(bus, JobService)),
    ledger,
    createJob: async (job) => {
      await calls.create(jobResource(job), { ...job, metadata: { ...job.metadata, namespace: NAMESPACE } });
      if (more.throwaway !== true) created.push(job);
    },
    removeJobs,
    exists: async (job) => (await calls.get(jobResource(job), job.metadata.name).catch(ifNotThere)) !== undefined,
    untilCondition: (job, type) =>
      until(
        `${job.metadata.name} is ${type}`,
        async () => {
          const { status } = await calls.get<JobObject>(jobResource(job), job.metadata.name);
          const conditions = (status?.conditions ?? []).filter(({ status: is }) => is === "True");
          return conditions.find((each) => each.type === type || each.type === "Failed") ?? false;
        },
        { timeoutMs: 90_000, everyMs: 100 },
      ).then((condition) => {
        if (condition.type !== type) throw new Error(`${job.metadata.name} has failed: ${condition.message ?? ""}`);
      }),
    runningPods: async (job) => {
      const pods = await podsOf(job);
      return pods
        .filter(({ status, metadata }) => status?.phase === "Running" && metadata?.deletionTimestamp === undefined)
        .sort((a, b) => ((a.metadata?.name ?? "") < (b.metadata?.name ?? "") ? -1 : 1));
    },
    refusals: async () => {
      const logs = await Promise.all(SERVICES.map((service) => readFile(join(directory, `${service}.log`), "utf8")));
      return logs.flatMap((log) => log.split("\n")).filter((line) => /forbidden|permission_denied/i.test(line));
    },
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

function jobResource({ apiVersion, kind }: JobObject) {
  return { apiVersion, plural: `${kind.toLowerCase()}s`, namespace: NAMESPACE };
}

function ifNotThere(error: unknown): undefined {
  if (toKubeFault(error)?.code !== "not_found") throw error;
}
