import type { V1Job, V1Node, V1Pod } from "@kubernetes/client-node";
import { unlessMissing } from "@muster/kube";
import { until } from "@muster/testkit";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { type JobObject, type LimitedWorld, startLimitedWorld } from "./limited-world.ts";

const real = process.env["MUSTER_E2E_KUBECONFIG"];

const GPU = "nvidia.com/gpu";
const POOL = "gpus";
/** The first holds a whole training, whose checkpoints are on its disk. */
const GPUS_OF_NODES = [4, 2];
const OWNED = 3;
const TRAINING = 4;
const TEAM_A = "e2e-team-a";
const TEAM_B = "e2e-team-b";
const TREE = "e2e-teams";

const NODES = { apiVersion: "v1", plural: "nodes" };
const NAMESPACES = { apiVersion: "v1", plural: "namespaces" };
const QUEUES = { apiVersion: "muster.dev/v1", plural: "queues" };
const JOBS = { apiVersion: "muster.dev/v1", plural: "jobs", namespace: "default" };
const BATCH_JOBS = { apiVersion: "batch/v1", plural: "jobs", namespace: TEAM_B };
const BATCH_PODS = { apiVersion: "v1", plural: "pods", namespace: TEAM_B };
const PATIENCE = { timeoutMs: 90_000, everyMs: 100 };
const LONG = { timeout: 300_000 };

/**
 * Writes a checkpoint when it is terminated. If it finds one, it prints the step and exits with 0. A pod that Kubernetes creates before Muster has suspended
 * its Job has no component, and does not train.
 */
const TRAIN = `
  import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
  const { NAME, COMPONENT } = process.env;
  const file = "/checkpoints/" + NAME + "-" + COMPONENT;
  if (existsSync(file)) {
    console.log("resumes at step " + readFileSync(file, "utf8"));
    rmSync(file);
    process.exit(0);
  }
  let step = 0;
  setInterval(() => { step += 1; }, 100);
  process.once("SIGTERM", () => { if (COMPONENT !== "") writeFileSync(file, String(step)); process.exit(143); });
  writeFileSync("/tmp/begun", "");
`;
const HOLD = `
  process.once("SIGTERM", () => process.exit(143));
  setInterval(() => {}, 1000);
  (await import("node:fs")).writeFileSync("/tmp/begun", "");
`;

describe.skipIf(real === undefined)("two teams that share GPUs of the real cluster", LONG, () => {
  const stack = new AsyncDisposableStack();
  let world: LimitedWorld;
  /** The node with the most GPUs. */
  let wide = "";

  beforeAll(async () => {
    const definitions = ["deploy/crds/muster.dev_queues.yaml"];
    const env = { JOB_BATCH_JOBS: "all" };
    world = stack.use(await startLimitedWorld(real ?? "", { definitions, rights: ["batch-jobs.yaml"], env }));
    wide = await addGpus(world, stack);
    await addTeams(world, stack);
  }, 240_000);
  afterAll(() => stack.disposeAsync(), 240_000);
  afterEach(async () => {
    expect(await world.refusals()).toEqual([]);
  });

  const untilBegun = (job: JobObject, count: number) =>
    until(
      `${count} pods of ${job.metadata.name} have begun`,
      async () => (await world.runningPods(job)).filter(isReady).length === count,
      PATIENCE,
    );
  const logsOf = async ({ metadata: { name } }: JobObject): Promise<readonly string[]> => {
    const components = Array.from({ length: TRAINING }, (_, index) => `worker-${index}`);
    const logs = components.map((component) => world.jobs.getJobLogs({ key: { kind: "Job", name }, component }));
    return (await Promise.all(logs)).map(({ chunk }) => Buffer.from(chunk).toString());
  };
  const conditionsOf = async ({ metadata }: JobObject): Promise<readonly string[]> => {
    const { status } = await world.calls.get<JobObject>(JOBS, metadata.name);
    return (status?.conditions ?? []).map(({ type, status: is }) => `${type}=${is}`);
  };
  /** Team A reclaims its quota, and keeps it as long as `during` takes. */
  const reclaim = async (during: () => Promise<unknown>): Promise<void> => {
    const owner = ownerJob(unique("owner"));
    await world.createJob(owner);
    await untilBegun(owner, OWNED);
    await during();
    await world.jobs.cancelJob({ key: { kind: "Job", name: owner.metadata.name } });
  };

  it("the training that borrows leaves for the owner, and resumes at its checkpoint when the owner ends", async () => {
    const training = trainingJob(unique("training"), wide);
    await world.createJob(training);
    await untilBegun(training, TRAINING);
    await reclaim(async () => {
      expect(await conditionsOf(training)).toEqual(
        expect.arrayContaining(["MachinesReserved=False", "Preempted=True"]),
      );
      expect(await world.runningPods(training)).toEqual([]);
    });
    await world.untilCondition(training, "Succeeded");
    for (const log of await logsOf(training)) expect(log).toMatch(/^resumes at step \d+\n$/);
  });

  it("a Job of Kubernetes in another namespace is queued, leaves for the owner, and resumes by itself", async () => {
    const name = unique("batch");
    const job = (): Promise<V1Job> => world.calls.get<V1Job>(BATCH_JOBS, name);
    const begun = async (): Promise<readonly V1Pod[]> => {
      const { items } = await world.calls.list<V1Pod>(BATCH_PODS, { query: { labelSelector: `job-name=${name}` } });
      return items.filter((pod) => isReady(pod) && pod.metadata?.labels?.["muster.dev/component"] !== undefined);
    };
    const reserved = async () => {
      const { reservations } = await world.ledger.listReservations({ ownerKind: "batch-job" });
      return reservations.map(({ queue, machines }) => [queue, machines.length]);
    };

    // Not suspended, so that Kubernetes may create pods before the Job is queued.
    await world.calls.create(BATCH_JOBS, batchJob(name, wide));
    await until("all pods have begun", async () => (await begun()).length === TRAINING, PATIENCE);
    expect((await job()).spec?.suspend).toBe(false);
    expect(await reserved()).toEqual([[TEAM_B, TRAINING]]);
    await reclaim(async () => {
      expect((await job()).spec?.suspend).toBe(true);
      expect(await begun()).toEqual([]);
      expect(await reserved()).toEqual([[TEAM_B, 0]]);
    });
    const done = await until(
      "the Job is complete",
      async () => {
        const now = await job();
        return now.status?.conditions?.some(({ type, status }) => type === "Complete" && status === "True") && now;
      },
      PATIENCE,
    );
    expect(done.status).toMatchObject({ succeeded: TRAINING });
    expect(done.status?.failed).toBeUndefined();
    await until("nothing is reserved", async () => (await reserved()).length === 0, PATIENCE);
  });
});

/** Adds GPUs to two nodes of `workers`, and moves them to a separate pool until the end. Returns the node with the most GPUs. */
async function addGpus({ calls, ledger }: LimitedWorld, stack: AsyncDisposableStack): Promise<string> {
  const { items } = await calls.list<V1Node>(NODES, { query: { labelSelector: "pool=workers" } });
  const chosen = items.slice(0, GPUS_OF_NODES.length).map(({ metadata }) => metadata?.name ?? "");
  const label = (name: string, pool: string) =>
    calls.patch(NODES, name, { kind: "merge", body: { metadata: { labels: { pool } } } });
  const advertise = (name: string, gpus: string | null) => {
    const amounts = { [GPU]: gpus };
    const body = { status: { capacity: amounts, allocatable: amounts } };
    return calls.patch(NODES, name, { kind: "merge", body }, { subresource: "status" });
  };
  for (const [index, gpus] of GPUS_OF_NODES.entries()) {
    const name = chosen[index] ?? "";
    stack.defer(async () => {
      await advertise(name, null);
      await label(name, "workers");
    });
    await advertise(name, String(gpus));
    await label(name, POOL);
  }
  const total = GPUS_OF_NODES.reduce((sum, gpus) => sum + gpus, 0);
  await until("the ledger knows the GPUs", async () => {
    const { pools } = await ledger.listPools({});
    return pools.find(({ name }) => name === POOL)?.allocatable[GPU] === total;
  });
  return chosen[0] ?? "";
}

/** A queue for each team, and a namespace for team B. */
async function addTeams({ calls, removeJobs }: LimitedWorld, stack: AsyncDisposableStack): Promise<void> {
  const quotas = [{ pool: POOL, resources: [{ name: GPU, nominal: OWNED }] }];
  const leaf = { parent: TREE, namespaceSelector: {}, quotas };
  const specs = [
    [TREE, {}],
    [TEAM_A, { ...leaf, preemption: { reclaim: "Any" } }],
    [TEAM_B, leaf],
  ] as const;
  stack.defer(async () => {
    await until("no queue of the teams exists", async () => {
      const found = await Promise.all(specs.map(([name]) => unlessMissing(calls.get(QUEUES, name))));
      return found.every((queue) => queue === undefined);
    });
  });
  for (const [name, spec] of specs) {
    stack.defer(() => calls.delete(QUEUES, name));
    await calls.create(QUEUES, { apiVersion: QUEUES.apiVersion, kind: "Queue", metadata: { name }, spec });
  }
  // A queue that has work stays.
  stack.defer(removeJobs);
  stack.defer(() => calls.delete(NAMESPACES, TEAM_B));
  await calls.create(NAMESPACES, { metadata: { name: TEAM_B } });
}

/** Names of earlier runs on the same cluster may still be taken. */
function unique(name: string): string {
  return `e2e-${name}-${Date.now().toString(36)}`;
}

function isReady({ metadata, status }: V1Pod): boolean {
  const ready = status?.conditions?.some(({ type, status: is }) => type === "Ready" && is === "True");
  return metadata?.deletionTimestamp === undefined && ready === true;
}

/** A pod that has begun once its file exists. */
function podSpec(
  program: string,
  more: { readonly env?: readonly object[]; readonly mounts?: readonly object[] } = {},
) {
  const container = {
    name: "main",
    image: "node:24-bookworm-slim",
    imagePullPolicy: "IfNotPresent",
    command: ["node", "--input-type=module", "--eval", program],
    readinessProbe: { exec: { command: ["test", "-f", "/tmp/begun"] }, periodSeconds: 1 },
    resources: { limits: { [GPU]: "1" } },
    env: more.env ?? [],
    volumeMounts: more.mounts ?? [],
  };
  return { terminationGracePeriodSeconds: 5, containers: [container] };
}

/** A pod on this node, which has the checkpoints. */
function trainingPod(name: string, node: string) {
  const mounts = [{ name: "checkpoints", mountPath: "/checkpoints" }];
  const component = { fieldRef: { fieldPath: "metadata.labels['muster.dev/component']" } };
  const env = [
    { name: "NAME", value: name },
    { name: "COMPONENT", valueFrom: component },
  ];
  return {
    ...podSpec(TRAIN, { env, mounts }),
    nodeSelector: { "kubernetes.io/hostname": node },
    volumes: [{ name: "checkpoints", hostPath: { path: "/tmp" } }],
  };
}

function gang(name: string, queue: string, replicas: number, spec: object) {
  return {
    apiVersion: "muster.dev/v1",
    kind: "Job",
    metadata: { name, labels: { "muster.dev/queue": queue } },
    spec: { replicaSpecs: { worker: { replicas, pool: POOL, restartPolicy: "Never", template: { spec } } } },
  };
}

function ownerJob(name: string): JobObject {
  return gang(name, TEAM_A, OWNED, podSpec(HOLD));
}

function trainingJob(name: string, node: string): JobObject {
  return gang(name, TEAM_B, TRAINING, trainingPod(name, node));
}

function batchJob(name: string, node: string): object {
  const pod = trainingPod(name, node);
  const spec = { ...pod, restartPolicy: "Never", nodeSelector: { ...pod.nodeSelector, pool: POOL } };
  return {
    apiVersion: "batch/v1",
    kind: "Job",
    metadata: { name, labels: { "muster.dev/queue": TEAM_B } },
    spec: {
      parallelism: TRAINING,
      completions: TRAINING,
      completionMode: "Indexed",
      backoffLimit: 0,
      template: { spec },
    },
  };
}
