import { join } from "node:path";
import type { V1Pod } from "@kubernetes/client-node";
import { attachNodes } from "@muster/devcluster";
import { muster } from "@muster/proto";
import { startKubeApiServer, findKubeAssets, until } from "@muster/testkit";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { type JobObject, type LimitedWorld, startLimitedWorld } from "./limited-world.ts";
import { buildSmallSession } from "./stack-world.ts";

const real = process.env["MUSTER_E2E_KUBECONFIG"];
const assets = findKubeAssets();
const fixtures = process.env["MUSTER_CRD_FIXTURES"];
const tfjobs = fixtures === undefined ? undefined : join(fixtures, "kubeflow/kubeflow.org_tfjobs.yaml");
const definitions = tfjobs === undefined ? [] : [tfjobs];

const JOB = { timeout: 400_000 };
const JOBS = { apiVersion: "muster.dev/v1", plural: "jobs", namespace: "default" };
const PODS = { apiVersion: "v1", plural: "pods", namespace: "default" };
const SKIPPED = tfjobs === undefined ? " (skipped: MUSTER_CRD_FIXTURES names no folder)" : "";
const TFJOB = `runs a TFJob under Kubeflow's own definition, with the names of TF_CONFIG${SKIPPED}`;

type Cluster = {
  readonly on: string;
  readonly skip: boolean;
  /** Whether the cluster has its own kubelets and controllers. */
  readonly whole: boolean;
  readonly start: () => Promise<LimitedWorld>;
};

/** Both check rights (RBAC). Only a whole cluster has DNS names for pods, evictions and a garbage collector. */
const CLUSTERS: readonly Cluster[] = [
  ...(real === undefined
    ? []
    : [
        {
          on: "the real cluster of MUSTER_E2E_KUBECONFIG",
          skip: false,
          whole: true,
          start: (): Promise<LimitedWorld> => startLimitedWorld(real, { definitions }),
        },
      ]),
  {
    on: `a real kube-apiserver (${assets.found ? assets.directory : `skipped: ${assets.reason}`})`,
    skip: !assets.found,
    whole: false,
    start: startOnApiServer,
  },
];

async function startOnApiServer(): Promise<LimitedWorld> {
  await using starting = new AsyncDisposableStack();
  const server = starting.use(await startKubeApiServer());
  const pools = [
    { name: "drivers", nodes: 1 },
    { name: "workers", nodes: 4 },
  ];
  starting.use(await attachNodes({ kubeconfig: server.kubeconfig, pools }));
  const world = starting.use(await startLimitedWorld(server.kubeconfig, { definitions, throwaway: true }));
  const all = starting.move();
  return { ...world, [Symbol.asyncDispose]: () => all.disposeAsync() };
}

/** Sends its name to each other pod by DNS name, and exits once it has received the name of each. */
const GREET = `
  import { connect, createServer } from "node:net";
  const members = (names) => names.map((name) => name.split(":")[0]);
  const all = members(process.env.TF_CONFIG ? Object.values(JSON.parse(process.env.TF_CONFIG).cluster).flat() : JSON.parse(process.env.MUSTER_CLUSTER).worker);
  const others = all.filter((name) => name.split(".")[0] !== process.env.POD_NAME);
  const heard = new Set();
  const expected = new Set();
  const isDone = () => heard.size === others.length && expected.size === others.length;
  const server = createServer((socket) => {
    socket.on("data", (name) => { heard.add(String(name)); socket.end("welcome"); finish(); }).on("error", () => {});
  }).listen(2222);
  const finish = () => { if (isDone()) { console.log("met " + [...heard].sort().join(", ")); server.close(); } };
  const greet = (name) => connect(2222, name)
    .on("connect", function () { this.write(process.env.POD_NAME); })
    .on("data", () => { expected.add(name); finish(); })
    .on("error", () => setTimeout(greet, 200, name));
  others.forEach(greet);
`;
/** The first name that TF_CONFIG has for workers. */
const PRINT_NAME = `console.log(JSON.parse(process.env.TF_CONFIG).cluster.worker[0].split(".")[0]);`;
const WAIT = `process.once("SIGTERM", () => process.exit(0)); setInterval(() => {}, 1000);`;

for (const { on, skip, whole, start } of CLUSTERS) {
  describe.skipIf(skip)(`each service with only its rights of deploy/kubernetes, on ${on}`, () => {
    let world: LimitedWorld;
    beforeAll(async () => {
      world = await start();
    }, 180_000);
    afterAll(() => world[Symbol.asyncDispose](), 120_000);
    afterEach(async () => {
      expect(await world.refusals()).toEqual([]);
    });

    // The tests of the chart cover it on a whole cluster.
    if (!whole) {
      it("runs a session that ends without a warning", { timeout: 300_000 }, async () => {
        const name = unique("session");
        await world.sessions.submitSession({ requestId: name, name, spec: buildSmallSession({ driverSeconds: 1 }) });
        const session = await until(
          `${name} is finished`,
          async () => {
            const reply = await world.sessions.getSession({ name });
            const present = reply.session ?? muster.session.v1.Session.create();
            return present.finishedAtMs > 0 && present;
          },
          { timeoutMs: 120_000, everyMs: 100 },
        );
        expect(JSON.parse(session.resultJson)).toEqual({ workers: 2 });
        expect(session.warnings).toEqual([]);
      });

      it("runs a job, serves its log and events, and removes it after its time to live", JOB, async () => {
        const job = gang(unique("gang"), `console.log("done");`);
        const { name } = job.metadata;
        await world.jobs.submitJob({ requestId: name, manifestJson: JSON.stringify(job) });
        await world.untilCondition(job, "Succeeded");
        expect(await logOf(world, "Job", name)).toBe("done\n");
        await until("an event names a pod", async () => {
          const { events } = await world.jobs.listJobEvents({ key: { kind: "Job", name } });
          return events.some(({ reason }) => reason === "SuccessfulCreatePod");
        });
        // Set only now, so that the earlier steps cannot be too late.
        const body = { spec: { runPolicy: { ttlSecondsAfterFinished: 1 } } };
        await world.calls.patch(JOBS, name, { kind: "merge", body });
        await until(`${name} is removed`, async () => !(await world.exists(job)), { timeoutMs: 120_000 });
      });

      it("recreates a pod that is deleted by force, on its machine", JOB, async () => {
        const job = gang(unique("kept"), WAIT);
        await world.createJob(job);
        const before = await untilThreeRun(world, job);
        const [first] = before;
        const name = first?.metadata?.name ?? "";
        await world.calls.delete(PODS, name, { gracePeriodSeconds: 0 });
        const after = await until(
          `${name} runs again`,
          async () => {
            const running = await world.runningPods(job);
            const recreated = running.find(({ metadata }) => metadata?.name === name);
            return running.length === 3 && recreated?.metadata?.uid !== first?.metadata?.uid && running;
          },
          { timeoutMs: 120_000, everyMs: 100 },
        );
        expect(machines(after)).toEqual(machines(before));
        await world.jobs.cancelJob({ key: { kind: "Job", name: job.metadata.name } });
        await world.untilCondition(job, "Failed");
      });
    }

    if (whole) {
      it("protects the pods of a gang from eviction", JOB, async () => {
        const job = gang(unique("guarded"), WAIT);
        await world.createJob(job);
        const [first] = await untilThreeRun(world, job);
        const metadata = { name: first?.metadata?.name ?? "", namespace: "default" };
        const eviction = { apiVersion: "policy/v1", kind: "Eviction", metadata };
        const evicting = world.calls.create(PODS, eviction, { subresource: "eviction" });
        await expect(evicting).rejects.toMatchObject({ code: 429 });
        await world.jobs.cancelJob({ key: { kind: "Job", name: job.metadata.name } });
        await world.untilCondition(job, "Failed");
      });

      it("runs a gang whose pods reach each other by name", JOB, async () => {
        const job = gang(unique("names"), GREET);
        await world.createJob(job);
        await world.untilCondition(job, "Succeeded");
        const { name } = job.metadata;
        expect(await logOf(world, "Job", name)).toBe(`met ${name}-worker-1, ${name}-worker-2\n`);
      });
    }

    it.skipIf(tfjobs === undefined)(TFJOB, JOB, async () => {
      const name = unique("tf");
      const [program, expected] = whole
        ? [GREET, `met ${name}-ps-0, ${name}-worker-1\n`]
        : [PRINT_NAME, `${name}-worker-0\n`];
      const job = tfjob(name, program);
      await world.createJob(job);
      await world.untilCondition(job, "Succeeded");
      expect(await logOf(world, "TFJob", name)).toBe(expected);
    });
  });
}

async function logOf(world: LimitedWorld, kind: string, name: string): Promise<string> {
  const { chunk } = await world.jobs.getJobLogs({ key: { kind, name }, component: "worker-0" });
  return Buffer.from(chunk).toString();
}

/** Names of earlier runs on the same cluster may still be taken. */
function unique(name: string): string {
  return `e2e-${name}-${Date.now().toString(36)}`;
}

function container(name: string, program: string) {
  return {
    name,
    image: "node:24-bookworm-slim",
    imagePullPolicy: "IfNotPresent",
    command: ["node", "--input-type=module", "--eval", program],
    env: [{ name: "POD_NAME", valueFrom: { fieldRef: { fieldPath: "metadata.name" } } }],
  };
}

function gang(name: string, program: string): JobObject {
  const template = { spec: { terminationGracePeriodSeconds: 2, containers: [container("main", program)] } };
  return {
    apiVersion: "muster.dev/v1",
    kind: "Job",
    metadata: { name },
    spec: {
      runPolicy: { cleanPodPolicy: "Running", backoffLimit: 3 },
      replicaSpecs: { worker: { replicas: 3, pool: "workers", restartPolicy: "OnFailure", template } },
    },
  };
}

function tfjob(name: string, program: string): JobObject {
  const template = { spec: { nodeSelector: { pool: "workers" }, containers: [container("tensorflow", program)] } };
  return {
    apiVersion: "kubeflow.org/v1",
    kind: "TFJob",
    metadata: { name },
    spec: {
      runPolicy: { cleanPodPolicy: "Running" },
      tfReplicaSpecs: {
        PS: { replicas: 1, restartPolicy: "OnFailure", template },
        Worker: { replicas: 2, restartPolicy: "OnFailure", template },
      },
    },
  };
}

function untilThreeRun(world: LimitedWorld, job: JobObject): Promise<readonly V1Pod[]> {
  return until(
    `three pods of ${job.metadata.name} run`,
    async () => {
      const running = await world.runningPods(job);
      return running.length === 3 && running;
    },
    { timeoutMs: 120_000, everyMs: 100 },
  );
}

function machines(pods: readonly V1Pod[]): Readonly<Record<string, string | undefined>> {
  return Object.fromEntries(pods.map(({ metadata, spec }) => [metadata?.name ?? "", spec?.nodeName]));
}
