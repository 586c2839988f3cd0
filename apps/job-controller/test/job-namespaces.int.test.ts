import type { CoreV1Event, V1Pod } from "@kubernetes/client-node";
import { startSimulatedNodes, type SimulatedNodes } from "@muster/devcluster";
import { unlessMissing, type KubeCalls, type KubeObject } from "@muster/kube";
import { startKubeControllers, until, findMissingControllers } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { POD_GROUP_KINDS, type PodGroup } from "../src/members/pod-group.ts";
import { API_SERVERS } from "./api-servers.ts";
import { openJobWorld, type JobWorld, type TestJob } from "./job-world.ts";

const PATIENCE = { timeoutMs: 60_000 };
const NAMESPACES = { apiVersion: "v1", plural: "namespaces" };
const QUEUES = { apiVersion: "muster.dev/v1", plural: "queues" };
const AMPLE = [
  { name: "cpu", nominal: 10_000 },
  { name: "memory", nominal: "1Pi" },
];

const jobsIn = (namespace: string) => ({ apiVersion: "muster.dev/v1", plural: "jobs", namespace });

/** Builds a job whose workers each have a whole machine, or in a named queue a part of one with this CPU. */
function job(name: string, flags: readonly string[], { replicas = 1, queue = "", cpu = "", run = {} } = {}): TestJob {
  const resources = cpu === "" ? {} : { resources: { requests: { cpu } } };
  const metadata = { name, ...(queue !== "" && { labels: { "muster.dev/queue": queue } }) };
  const container = { name: "main", image: "none", command: ["simulate", ...flags], ...resources };
  const worker = { replicas, pool: "workers", template: { spec: { containers: [container] } } };
  return { apiVersion: "muster.dev/v1", kind: "Job", metadata, spec: { replicaSpecs: { worker }, runPolicy: run } };
}

/** Builds an MPIJob with one worker, whose launcher ends by itself. */
function mpiJob(name: string): TestJob {
  const roles = [
    { role: "Launcher", replicas: 1, flag: "--run-ms=50" },
    { role: "Worker", replicas: 1, flag: "--run-ms=600000" },
  ].map(({ role, replicas, flag }) => {
    const containers = [{ name: "mpi", image: "none", command: ["simulate", flag] }];
    return [role, { replicas, template: { spec: { containers } } }];
  });
  const spec = { slotsPerWorker: 2, mpiReplicaSpecs: Object.fromEntries(roles) as object };
  return { apiVersion: "kubeflow.org/v1", kind: "MPIJob", metadata: { name }, spec };
}

const lack = findMissingControllers();

for (const server of API_SERVERS) {
  const isLacking = server.isReal && lack !== undefined;
  const title = isLacking && !server.skip ? `${server.title} (skipped: ${lack})` : server.title;
  describe.skipIf(server.skip || isLacking)(`jobs of every namespace, under ${title}`, { timeout: 240_000 }, () => {
    const stack = new AsyncDisposableStack();
    let world: JobWorld;
    let calls: KubeCalls;
    let nodes: SimulatedNodes;

    beforeAll(async () => {
      const apiServer = await server.start();
      const startNodes = async (kubeconfig: string, pools: Readonly<Record<string, number>>) => {
        const timing = { nodeGraceMs: 2000, leaseEveryMs: 500 };
        nodes = await startSimulatedNodes({ kubeconfig, pools, ...timing, ...apiServer.nodeOptions });
        return nodes;
      };
      const definitions = [
        ...["muster.dev_jobs.yaml", "muster.dev_queues.yaml", "kubeflow.org_mpijobs.yaml"],
        "../../apps/job-controller/test/pod-groups/volcano.yaml",
      ];
      world = stack.use(await openJobWorld(apiServer, { workers: 2 }, { startNodes, definitions }));
      ({ calls } = world);
      if (server.isReal) stack.use(await startKubeControllers(world.kubeconfig, ["garbage-collector-controller"]));
      for (const name of ["team-a", "team-b", "team-z"])
        await calls.create(NAMESPACES, { metadata: { name, labels: { team: name } } });
      await calls.create(NAMESPACES, { metadata: { name: "team-b-urgent", labels: { team: "team-b" } } });
      await label("default", "work");
      for (const team of ["work", "team-a", "team-b"]) {
        const spec = {
          namespaceSelector: { matchLabels: { team } },
          quotas: [{ pool: "workers", resources: AMPLE }],
          preemption: { withinQueue: "LowerPriority" },
        };
        await calls.create(QUEUES, { apiVersion: "muster.dev/v1", kind: "Queue", metadata: { name: team }, spec });
      }
      await world.startController({
        JOB_NAMESPACES: "all",
        JOB_DISCOVER_MS: "300",
        JOB_SYNC_PERIOD_MS: "1000",
        JOB_NODE_LOST_MS: "500",
        JOB_DEFAULT_POOL: "workers",
      });
    }, 240_000);

    afterAll(() => stack.disposeAsync());

    const label = (namespace: string, team: string): Promise<KubeObject> =>
      calls.patch(NAMESPACES, namespace, { kind: "merge", body: { metadata: { labels: { team } } } });
    const create = (namespace: string, made: TestJob): Promise<TestJob> =>
      calls.create<TestJob>(jobsIn(namespace), { ...made, metadata: { ...made.metadata, namespace } as never });
    const untilState = (namespace: string, name: string, type: string, place = jobsIn(namespace)): Promise<TestJob> =>
      until(
        `${namespace}/${name} is ${type}`,
        async () => {
          const seen = await unlessMissing(calls.get<TestJob>(place, name));
          return (
            seen?.status?.conditions?.some((each) => each.type === type && each.status === "True") === true && seen
          );
        },
        PATIENCE,
      );
    const podsIn = async (namespace: string): Promise<readonly V1Pod[]> =>
      (await calls.list<V1Pod>({ apiVersion: "v1", plural: "pods", namespace })).items;
    const reservations = async () => (await world.ledger.listReservations({ ownerKind: "job" })).reservations;
    const untilReleased = (): Promise<boolean> =>
      until("the ledger has no job", async () => (await reservations()).length === 0, PATIENCE);
    const remove = async (...jobs: readonly (readonly [namespace: string, name: string])[]): Promise<void> => {
      for (const [namespace, name] of jobs) await calls.delete(jobsIn(namespace), name);
      await untilReleased();
    };

    it("runs jobs of one name in two namespaces, each with machines, pods and answers of its own", async () => {
      await create("default", job("train", ["--run-ms=600000"]));
      await create("team-a", job("train", ["--run-ms=600000"]));
      const own = await untilState("default", "train", "Running");
      const other = await untilState("team-a", "train", "Running");

      const held = await reservations();
      expect(held.map(({ owner, queue }) => [owner?.id, queue]).toSorted()).toEqual(
        [
          [`train-${(own.metadata.uid ?? "").replaceAll("-", "").slice(0, 12)}`, "work"],
          [`train-${(other.metadata.uid ?? "").replaceAll("-", "").slice(0, 12)}`, "team-a"],
        ].toSorted(),
      );
      const nodes = [...(await podsIn("default")), ...(await podsIn("team-a"))].map(({ spec }) => spec?.nodeName);
      expect(new Set(nodes).size).toBe(2);

      const key = { name: "train", namespace: "team-a" };
      expect((await world.jobs.getJob({ key })).job).toMatchObject({ key, uid: other.metadata.uid, state: "RUNNING" });
      expect((await world.jobs.getJob({ key: { name: "train" } })).job?.uid).toBe(own.metadata.uid);
      const namespaces = async (namespace: string): Promise<readonly (string | undefined)[]> =>
        (await world.jobs.listJobs({ namespace })).jobs.map(({ key: of }) => of?.namespace);
      expect(await namespaces("")).toEqual(["default", "team-a"]);
      expect(await namespaces("team-a")).toEqual(["team-a"]);

      await world.jobs.cancelJob({ requestId: "cancel", key });
      await untilState("team-a", "train", "Failed");
      await until("only one job has machines", async () => (await reservations()).length === 1, PATIENCE);
      expect((await world.jobs.getJob({ key: { name: "train" } })).job?.state).toBe("RUNNING");
      await remove(["default", "train"], ["team-a", "train"]);
    });

    it("counts the pods of a job in another namespace once, as parts that the job holds", async () => {
      const node = (
        await calls.list<KubeObject & { status?: { allocatable?: { cpu?: string } } }>({
          apiVersion: "v1",
          plural: "nodes",
        })
      ).items[0];
      const half = `${Number(node?.status?.allocatable?.cpu) / 2}`;
      // A pod that counted beside its own grant would fill its machine, and the other three halves would not fit.
      for (const [namespace, replicas] of [
        ["team-a", 1],
        ["team-b", 3],
      ] as const) {
        await create(namespace, job("parts", ["--run-ms=600000"], { replicas, queue: namespace, cpu: half }));
        await untilState(namespace, "parts", "Running");
      }
      const nodes = [...(await podsIn("team-a")), ...(await podsIn("team-b"))].map(({ spec }) => spec?.nodeName ?? "");
      expect([nodes.length, new Set(nodes).size]).toEqual([4, 2]);
      await remove(["team-a", "parts"], ["team-b", "parts"]);
    });

    it("frees the machines of a deleted job, and runs a job to success on them", async () => {
      await create("team-a", job("long", ["--run-ms=600000"], { replicas: 2 }));
      await untilState("team-a", "long", "Running");
      await create("team-b", job("next", ["--run-ms=50"], { replicas: 2 }));
      await untilState("team-b", "next", "Created");
      await calls.delete(jobsIn("team-a"), "long");
      await untilState("team-b", "next", "Succeeded");
      await remove(["team-b", "next"]);
    });

    it("preempts a job for a job in another namespace of its queue, and runs it again afterwards", async () => {
      await create("team-b", job("low", ["--run-ms=600000"], { replicas: 2 }));
      const before = await untilState("team-b", "low", "Running");
      const run = { schedulingPolicy: { priority: 10 } };
      await create("team-b-urgent", job("high", ["--run-ms=50"], { replicas: 2, run }));
      await untilState("team-b-urgent", "high", "Succeeded");
      const after = await untilState("team-b", "low", "Running");
      expect(after.metadata.uid).toBe(before.metadata.uid);
      const preempted = after.status?.conditions?.find(({ type }) => type === "Preempted");
      expect(preempted).toMatchObject({ status: "False", message: "it has machines, and runs again" });
      await remove(["team-b", "low"], ["team-b-urgent", "high"]);
    });

    it("replaces the pod of a lost machine in its namespace", async () => {
      await create("team-a", job("losing", ["--run-ms=600000"]));
      await untilState("team-a", "losing", "Running");
      const lost = (await podsIn("team-a"))[0]?.spec?.nodeName ?? "";
      await nodes.kill(lost);
      const runsElsewhere = async (): Promise<boolean> =>
        (await podsIn("team-a")).some(({ spec, status }) => spec?.nodeName !== lost && status?.phase === "Running");
      await until("a pod runs on the other machine", runsElsewhere, PATIENCE);
      await nodes.restart(lost);
      await remove(["team-a", "losing"]);
    });

    it("creates the objects of an MPIJob beside its pods, and the launcher runs to success", async () => {
      const mpi = { apiVersion: "kubeflow.org/v1", plural: "mpijobs", namespace: "team-a" };
      const { metadata } = await calls.create<TestJob>(mpi, mpiJob("ring"));
      await untilState("team-a", "ring", "Succeeded", mpi);
      const owned: string[] = [];
      for (const [apiVersion, plural] of [
        ["v1", "configmaps"],
        ["v1", "serviceaccounts"],
        ["rbac.authorization.k8s.io/v1", "roles"],
        ["rbac.authorization.k8s.io/v1", "rolebindings"],
      ] as const) {
        const { items } = await calls.list({ apiVersion, plural, namespace: "team-a" });
        if (items.some(({ metadata: of }) => of?.ownerReferences?.some(({ uid }) => uid === metadata.uid)))
          owned.push(plural);
      }
      expect(owned).toEqual(["configmaps", "serviceaccounts", "roles", "rolebindings"]);
      await calls.delete(mpi, "ring");
      await untilReleased();
    });

    it("creates the pod group of a job in its namespace", async () => {
      const made = job("gang", ["--run-ms=600000"], { replicas: 2 });
      const { worker } = (made.spec as { replicaSpecs: { worker: { template: { spec: object } } } }).replicaSpecs;
      Object.assign(worker.template.spec, { schedulerName: "volcano" });
      await create("team-a", made);
      const groups = { apiVersion: POD_GROUP_KINDS.volcano.apiVersion, plural: "podgroups", namespace: "team-a" };
      const group = await until("the group exists", () => unlessMissing(calls.get<PodGroup>(groups, "gang")), PATIENCE);
      expect(group.spec?.minMember).toBe(2);
      await remove(["team-a", "gang"]);
    });

    it("reports a job in a namespace without a queue, and runs it once a queue serves the namespace", async () => {
      await create("team-z", job("stray", ["--run-ms=50"]));
      const events = async (): Promise<readonly CoreV1Event[]> =>
        (await calls.list<CoreV1Event>({ apiVersion: "v1", plural: "events", namespace: "team-z" })).items;
      const message =
        "no controller serves the namespace team-z: Muster runs the jobs of default and of namespaces that a queue serves; " +
        "select it in the spec.namespaceSelector of a queue without queues below it";
      const isReported = async (): Promise<boolean> =>
        (await events()).some((event) => event.reason === "NamespaceNotServed" && event.message === message);
      await until("there is an event", isReported, PATIENCE);
      const listed = await world.jobs.listJobs({});
      expect([listed.jobs, listed.jobsElsewhere]).toMatchObject([[], [{ namespace: "team-z", name: "stray" }]]);
      expect(await reservations()).toEqual([]);
      const key = { name: "stray", namespace: "team-z" };
      await expect(world.jobs.cancelJob({ requestId: "no", key })).rejects.toMatchObject({
        fault: { code: "invalid_request", field: "key.namespace" },
      });
      const meant = { name: "new", namespace: "team-z" };
      const manifestJson = JSON.stringify({ ...job("new", ["--run-ms=50"]), metadata: meant });
      await expect(world.jobs.submitJob({ requestId: "no", manifestJson })).rejects.toMatchObject({
        fault: { code: "invalid_request", field: "metadata.namespace" },
      });

      await label("team-z", "team-a");
      await untilState("team-z", "stray", "Succeeded");
      expect((await world.jobs.submitJob({ requestId: "yes", manifestJson })).job?.key).toMatchObject(meant);
      await untilState("team-z", "new", "Succeeded");
    });
  });
}
