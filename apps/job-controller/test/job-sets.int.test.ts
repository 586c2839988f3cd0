import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { CoreV1Event, V1CustomResourceDefinition, V1OwnerReference, V1Pod } from "@kubernetes/client-node";
import { startSimulatedNodes, type SimulatedNodes } from "@muster/devcluster";
import { unlessMissing, type KubeCalls, type KubeObject } from "@muster/kube";
import { buildBatchOwnerId, JOB_SET } from "@muster/names";
import { startKubeControllers, until, findMissingControllers } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { API_SERVERS } from "./api-servers.ts";
import { installDefinition, openJobWorld, type JobWorld } from "./job-world.ts";
import { playJobs, playJobSets, type TestJobSet } from "./play-job-sets.ts";

const TEAM = "team-a";
const PATIENCE = { timeoutMs: 100_000 };
const DEFINITIONS = { apiVersion: "apiextensions.k8s.io/v1", plural: "customresourcedefinitions" };
const QUEUES = { apiVersion: "muster.dev/v1", plural: "queues" };
const AMPLE = [
  { name: "cpu", nominal: 10_000 },
  { name: "memory", nominal: "1Pi" },
];
const ENV = { JOB_BATCH_JOBS: "all", JOB_DISCOVER_MS: "300", JOB_SYNC_PERIOD_MS: "1000", JOB_REFUSED_RETRY_MS: "1000" };
const CONTROLLERS = ["job-controller", "garbage-collector-controller", "pod-garbage-collector-controller"];

const FILE = join(process.env["MUSTER_CRD_FIXTURES"] ?? "", "jobset", "jobset.x-k8s.io_jobsets.yaml");
const isFound = process.env["MUSTER_CRD_FIXTURES"] !== undefined && existsSync(FILE);
const reason = "MUSTER_CRD_FIXTURES names no folder with jobset";
if (!isFound && process.env["CI"] === "true") throw new Error(`CI=true allows no skipped suite: ${reason}`);

/** The embedded API server has no built-in Jobs of Kubernetes. */
const JOBS_DEFINITION = {
  metadata: { name: "jobs.batch" },
  spec: {
    group: "batch",
    scope: "Namespaced",
    names: { kind: "Job", listKind: "JobList", plural: "jobs", singular: "job" },
    versions: [
      {
        name: "v1",
        served: true,
        storage: true,
        subresources: { status: {} },
        schema: { openAPIV3Schema: { type: "object", "x-kubernetes-preserve-unknown-fields": true } },
      },
    ],
  },
};

type Row = {
  readonly name: string;
  readonly replicas?: number;
  readonly job?: object;
  readonly flags?: readonly string[];
};

/** Builds a JobSet whose replicated jobs run one pod in each of their Jobs. The queue label on a Job must not matter, because its JobSet has it too. */
function jobSet(name: string, rows: readonly Row[], suspend = true): object {
  const labels = { "muster.dev/queue": "team-a" };
  const replicatedJobs = rows.map(({ name: of, replicas = 1, job = {}, flags = [] }) => {
    const container = { name: "main", image: "none", command: ["simulate", ...flags] };
    const pod = { restartPolicy: "Never", nodeSelector: { pool: "workers" }, containers: [container] };
    return { name: of, replicas, template: { metadata: { labels }, spec: { ...job, template: { spec: pod } } } };
  });
  const spec = { suspend, replicatedJobs };
  return { apiVersion: "jobset.x-k8s.io/v1alpha2", kind: "JobSet", metadata: { name, labels }, spec };
}

const lack = findMissingControllers();

describe.each(API_SERVERS)("under $title", ({ skip, isReal, start }) => {
  describe.skipIf(skip || !isFound || (isReal && lack !== undefined))(
    `work of Kubernetes${isFound ? "" : ` (skipped: ${reason})`}`,
    { timeout: 400_000 },
    () => {
      const stack = new AsyncDisposableStack();
      let world: JobWorld;
      let calls: KubeCalls;
      let nodes: SimulatedNodes;
      const sets = { apiVersion: "jobset.x-k8s.io/v1alpha2", plural: "jobsets", namespace: TEAM };
      const jobs = { apiVersion: "batch/v1", plural: "jobs", namespace: TEAM };
      const pods = { apiVersion: "v1", plural: "pods", namespace: TEAM };

      beforeAll(async () => {
        const apiServer = await start();
        const startNodes = async (kubeconfig: string, pools: Readonly<Record<string, number>>) => {
          nodes = await startSimulatedNodes({ kubeconfig, pools, ...apiServer.nodeOptions });
          return nodes;
        };
        world = stack.use(await openJobWorld(apiServer, { workers: 3 }, { startNodes }));
        ({ calls } = world);
        await installDefinition(calls, "muster.dev_queues.yaml");
        const labels = { team: "a" };
        await calls.create({ apiVersion: "v1", plural: "namespaces" }, { metadata: { name: TEAM, labels } });
        const account = { metadata: { name: "default" } };
        if (isReal) await calls.create({ apiVersion: "v1", plural: "serviceaccounts", namespace: TEAM }, account);
        else await install(JOBS_DEFINITION);
        const player = { kubeconfig: world.kubeconfig, calls, namespace: TEAM };
        stack.use(isReal ? await startKubeControllers(world.kubeconfig, CONTROLLERS) : playJobs(player));
        const spec = { namespaceSelector: { matchLabels: labels }, quotas: [{ pool: "workers", resources: AMPLE }] };
        const queue = { apiVersion: "muster.dev/v1", kind: "Queue", metadata: { name: "team-a" }, spec };
        await calls.create(QUEUES, queue);
        await world.startController(ENV);
      }, 240_000);
      afterAll(() => stack.disposeAsync());

      const install = async (definition: KubeObject): Promise<void> => {
        await calls.create(DEFINITIONS, definition);
        const name = definition.metadata?.name ?? "";
        const isEstablished = async (): Promise<boolean> =>
          (await calls.get<V1CustomResourceDefinition>(DEFINITIONS, name)).status?.conditions?.some(
            ({ type, status }) => type === "Established" && status === "True",
          ) === true;
        await until(`${name} is established`, isEstablished, PATIENCE);
      };
      const getSet = (name: string): Promise<TestJobSet> => calls.get<TestJobSet>(sets, name);
      const podsOf = async (name: string): Promise<readonly V1Pod[]> => {
        const query = { labelSelector: `jobset.sigs.k8s.io/jobset-name=${name}` };
        return (await calls.list<V1Pod>(pods, { query })).items;
      };
      const componentOf = ({ metadata }: V1Pod): string | undefined => metadata?.labels?.["muster.dev/component"];
      const untilPlaced = (name: string, components: readonly string[]): Promise<readonly V1Pod[]> =>
        until(
          `pods of ${name} run in ${components.join(", ")}`,
          async () => {
            const running = (await podsOf(name)).filter(({ status }) => status?.phase === "Running");
            const found = running.map(componentOf).sort();
            return found.join() === components.join() && running;
          },
          PATIENCE,
        );
      const reservations = async (ownerKind: string) =>
        (await world.ledger.listReservations({ ownerKind })).reservations;
      const untilReleased = (ownerKind: string): Promise<boolean> =>
        until(
          `nothing is reserved for ${ownerKind}`,
          async () => (await reservations(ownerKind)).length === 0,
          PATIENCE,
        );
      const eventsOf = async (name: string): Promise<readonly string[]> => {
        const { items } = await calls.list<CoreV1Event>({ apiVersion: "v1", plural: "events", namespace: TEAM });
        const own = items.filter(({ involvedObject }) => involvedObject.name === name);
        return own.map(({ type, reason: why, message }) => `${type} ${why}: ${message}`);
      };
      const untilEvent = (name: string, expected: RegExp): Promise<boolean> =>
        until(
          `${name} has the event ${expected.source}`,
          async () => (await eventsOf(name)).some((event) => expected.test(event)),
          PATIENCE,
        );
      const setStopPolicy = (stopPolicy: string): Promise<unknown> =>
        calls.patch(QUEUES, "team-a", { kind: "merge", body: { spec: { stopPolicy } } });
      const setReadyTimeout = (readyTimeout: string | null): Promise<unknown> =>
        calls.patch(QUEUES, "team-a", { kind: "merge", body: { spec: { readyTimeout } } });
      const queuedPod = (name: string, flags: readonly string[] = [], spec: object = {}): object => ({
        metadata: { name, labels: { "muster.dev/queue": "team-a" } },
        spec: {
          restartPolicy: "Never",
          nodeSelector: { pool: "workers" },
          schedulingGates: [{ name: "muster.dev/queue" }],
          containers: [{ name: "main", image: "none", command: ["simulate", ...flags] }],
          ...spec,
        },
      });
      const getPod = (name: string): Promise<V1Pod | undefined> => unlessMissing(calls.get<V1Pod>(pods, name));
      const untilPod = (name: string, phase: string): Promise<V1Pod> =>
        until(
          `${name} is ${phase}`,
          async () => {
            const pod = await getPod(name);
            return pod?.status?.phase === phase && pod;
          },
          PATIENCE,
        );

      it("a pod with the gate of queues gets one granted machine, and releases it when it has ended", async () => {
        await calls.create(pods, queuedPod("single"));
        const pod = await untilPod("single", "Running");
        const [reservation] = await reservations("queued-pod");
        expect(reservation?.owner?.id).toMatch(/^team-a-single-[0-9a-f]{12}$/);
        expect(reservation?.machines.map(({ node }) => node)).toEqual([pod.spec?.nodeName]);
        expect(pod.metadata?.labels).toMatchObject({
          "muster.dev/owner-kind": "queued-pod",
          "muster.dev/component": "pod-0",
        });
        await untilEvent("single", /^Normal Admitted: by the queue team-a on workers-/);
        nodes.finish(`${TEAM}/single`);
        await untilPod("single", "Succeeded");
        await untilReleased("queued-pod");
      });

      it("a pod with a preempted machine is deleted, a waiting one is not, and a deleted one keeps nothing", async () => {
        await calls.create(pods, queuedPod("leaves"));
        await untilPod("leaves", "Running");
        await setStopPolicy("HoldAndDrain");
        await until("it is gone", async () => (await getPod("leaves")) === undefined, PATIENCE);
        await untilReleased("queued-pod");
        await untilEvent("leaves", /^Warning Deleted: the pod is deleted: preempted/);

        await calls.create(pods, queuedPod("waits"));
        await untilEvent("waits", /^Normal Waiting: /);
        expect((await getPod("waits"))?.spec?.schedulingGates).toEqual([{ name: "muster.dev/queue" }]);
        await setStopPolicy("None");
        await untilPod("waits", "Running");
        await calls.delete(pods, "waits");
        await untilReleased("queued-pod");
      });

      it("a pod that ends too slowly is removed by force after the deadline", async () => {
        await calls.create(pods, queuedPod("clings", ["--ignore-term"], { terminationGracePeriodSeconds: 1 }));
        await untilPod("clings", "Running");
        expect(await reservations("queued-pod")).toMatchObject([{ graceMs: 11_000 }]);
        // The deadline follows from the grace in its spec.
        await calls.delete(pods, "clings", { gracePeriodSeconds: 600 });
        await setStopPolicy("HoldAndDrain");
        await untilEvent("clings", /^Warning ForcedDeletePod: pod clings was removed by force: .*within its grace/);
        await until("it is gone", async () => (await getPod("clings")) === undefined, PATIENCE);
        await untilReleased("queued-pod");
        await setStopPolicy("None");
      });

      it("a pod that is not ready in time is deleted, and one that was ready is not", async () => {
        await setReadyTimeout("1m");
        await calls.create(pods, queuedPod("fast"));
        const isRecorded = async (): Promise<boolean> =>
          (await untilPod("fast", "Running")).metadata?.annotations?.["muster.dev/progress"] === undefined;
        await until("it is recorded as ready", isRecorded, PATIENCE);
        await setReadyTimeout("1s");
        await calls.create(pods, queuedPod("slow", ["--start-ms=600000"]));
        await untilEvent(
          "slow",
          /^Warning Deleted: the pod is deleted: 0 of 1 pods were ready within the readyTimeout 1s of the queue team-a;/,
        );
        await until("it is gone", async () => (await getPod("slow")) === undefined, PATIENCE);
        expect((await getPod("fast"))?.metadata?.deletionTimestamp).toBeUndefined();
        await setReadyTimeout(null);
        nodes.finish(`${TEAM}/fast`);
        await untilReleased("queued-pod");
      });

      it("a JobSet is found after its definition is installed, and runs as one gang in its own places", async () => {
        const definition = parse(await readFile(FILE, "utf8")) as V1CustomResourceDefinition;
        // The embedded API server has no printer columns with filters.
        for (const version of definition.spec.versions) delete version.additionalPrinterColumns;
        await install(definition);
        stack.use(playJobSets({ kubeconfig: world.kubeconfig, calls, namespace: TEAM }));
        await calls.create(sets, jobSet("train", [{ name: "leader" }, { name: "worker", replicas: 2 }], false));
        const found = await untilPlaced("train", ["leader-0", "worker-1", "worker-2"]);
        const [reservation] = await reservations("job-set");
        expect(reservation?.needs.map(({ component }) => component)).toEqual(["leader-0", "worker-1", "worker-2"]);
        const granted = new Map(reservation?.machines.map(({ component, node }) => [component, node]));
        expect(new Map(found.map((pod) => [componentOf(pod), pod.spec?.nodeName]))).toEqual(granted);
        expect(await reservations("batch-job")).toEqual([]);
        const { machines } = await world.ledger.listMachines({ pool: "workers" });
        expect(machines.reduce((sum, { foreign }) => sum + (foreign?.pods ?? 0), 0)).toBe(0);
        await untilEvent("train", /^Normal Queued: waits in the queue team-a for 3 of its pods together/);
        await untilEvent("train", /^Normal Admitted: by the queue team-a on workers-/);

        for (const { metadata } of found) nodes.finish(`${TEAM}/${metadata?.name}`);
        await untilReleased("job-set");
        await calls.delete(sets, "train", { propagationPolicy: "Background" });
      });

      it("a JobSet is not changed otherwise: only spec.suspend and the gates of its templates", async () => {
        const rows = [
          { name: "leader", job: { backoffLimit: 3 } },
          { name: "worker", job: { completionMode: "Indexed" } },
        ];
        const written = await calls.create<TestJobSet>(sets, jobSet("kept", rows));
        const found = await untilPlaced("kept", ["leader-0", "worker-1"]);
        const now = await getSet("kept");
        const [isNow, was] = [now, written].map(({ metadata, spec }) => {
          const { suspend: _, replicatedJobs = [], ...rest } = spec ?? {};
          const ungated = replicatedJobs.map((each) => {
            const { schedulingGates: __, ...ofPods } = each.template?.spec?.template?.spec ?? {};
            const job = { ...each.template?.spec, template: { ...each.template?.spec?.template, spec: ofPods } };
            return { ...each, template: { ...each.template, spec: job } };
          });
          return { labels: metadata?.labels, annotations: metadata?.annotations, ...rest, replicatedJobs: ungated };
        });
        expect(isNow).toEqual(was);
        const gatesOf = (of: TestJobSet) =>
          of.spec?.replicatedJobs?.map(({ template }) => template?.spec?.template?.spec?.schedulingGates);
        expect(gatesOf(now)).toEqual(Array.from({ length: 2 }, () => [{ name: "muster.dev/queue" }]));
        for (const { metadata } of found) nodes.finish(`${TEAM}/${metadata?.name}`);
        await untilReleased("job-set");
      });

      it("a JobSet with preempted machines waits again, and its completed Jobs stay completed", async () => {
        await calls.create(sets, jobSet("yields", [{ name: "leader" }, { name: "worker", replicas: 2 }]));
        const found = await untilPlaced("yields", ["leader-0", "worker-1", "worker-2"]);
        const [leader] = found.filter((pod) => componentOf(pod) === "leader-0");
        nodes.finish(`${TEAM}/${leader?.metadata?.name}`);
        await until(
          "the leader is complete",
          async () => {
            const { status } = await calls.get<TestJobSet>(jobs, "yields-leader-0");
            return status?.conditions?.some(({ type, status: is }) => type === "Complete" && is === "True") === true;
          },
          PATIENCE,
        );
        await setStopPolicy("HoldAndDrain");
        await until("it is suspended", async () => (await getSet("yields")).spec?.suspend === true, PATIENCE);
        const isIdle = async (): Promise<boolean> =>
          (await reservations("job-set")).every(({ machines }) => machines.length === 0);
        await until("it waits without machines", isIdle, PATIENCE);
        await untilEvent("yields", /^Warning Requeued: /);
        await setStopPolicy("None");
        const again = await untilPlaced("yields", ["worker-1", "worker-2"]);
        expect((await reservations("job-set"))[0]?.needs.map(({ component }) => component)).toEqual([
          "worker-1",
          "worker-2",
        ]);
        for (const { metadata } of again) nodes.finish(`${TEAM}/${metadata?.name}`);
        await untilReleased("job-set");
      });

      it("a JobSet that is not ready in time releases its machines, explains its pause, and is admitted again after it", async () => {
        await setReadyTimeout("1s");
        const rows = [{ name: "leader" }, { name: "worker", flags: ["--start-ms=6000"] }];
        await calls.create(sets, jobSet("slow", rows));
        const progress = async () => (await getSet("slow")).metadata?.annotations?.["muster.dev/progress"] ?? "";
        await until(
          "the explanation states why it waits, and until when",
          async () => {
            const { metadata } = await getSet("slow");
            const id = buildBatchOwnerId(JOB_SET, { namespace: TEAM, name: "slow", uid: metadata?.uid ?? "" });
            const { explanation } = await world.jobs.explainJob({ key: { kind: JOB_SET, name: id } });
            const [{ code, message } = { code: "", message: "" }] = explanation?.reasons ?? [];
            return code === "READY_TIMEOUT" && /its machines are requested again at \d{4}-/.test(message);
          },
          PATIENCE,
        );
        await until("it was released twice", async () => /"readyTimeouts":[2-9]/.test(await progress()), PATIENCE);
        await untilEvent(
          "slow",
          /^Warning ReadyTimeout: [01] of 2 pods were ready within the readyTimeout 1s of the queue team-a, 2 times in a row; its machines/,
        );
        await setReadyTimeout(null);
        const found = await untilPlaced("slow", ["leader-0", "worker-1"]);
        await until("its progress is removed", async () => (await progress()) === "", PATIENCE);
        for (const { metadata } of found) nodes.finish(`${TEAM}/${metadata?.name}`);
        await untilReleased("job-set");
      });

      it.runIf(isReal)(
        "a JobSet is suspended when it is created, where the admission policy is installed",
        async () => {
          const rows = [{ name: "worker" }];
          const isSuspended = async (): Promise<boolean> => {
            const answer = await calls.create<TestJobSet>(sets, jobSet("policy", rows, false), {
              query: { dryRun: "All" },
            });
            return answer.spec?.suspend === true;
          };
          expect(await isSuspended()).toBe(false);
          const policy = await readFile(
            new URL("../../../deploy/kubernetes/batch-jobs-suspend.yaml", import.meta.url),
            "utf8",
          );
          for (const document of parseAllDocuments(policy)) {
            const object = document.toJS() as KubeObject;
            const plural =
              object.kind === "MutatingAdmissionPolicy"
                ? "mutatingadmissionpolicies"
                : "mutatingadmissionpolicybindings";
            await calls.create({ apiVersion: "admissionregistration.k8s.io/v1", plural }, object);
          }
          await until("the policy is in force", isSuspended, PATIENCE);
          const labels = { "muster.dev/queue": "team-a" };
          const owner = { apiVersion: sets.apiVersion, kind: "JobSet", name: "x", uid: "x", controller: true };
          const template = { spec: { restartPolicy: "Never", containers: [{ name: "main", image: "none" }] } };
          const create = async (...ownerReferences: V1OwnerReference[]): Promise<boolean | undefined> => {
            const job = { metadata: { name: "policy", labels, ownerReferences }, spec: { template } } as KubeObject;
            return (await calls.create<TestJobSet>(jobs, job, { query: { dryRun: "All" } })).spec?.suspend;
          };
          expect([await create(), await create(owner)]).toEqual([true, false]);
        },
      );

      it("a JobSet that is deleted while it runs keeps nothing", async () => {
        await calls.create(sets, jobSet("removed", [{ name: "worker", replicas: 2 }]));
        await untilPlaced("removed", ["worker-0", "worker-1"]);
        await calls.delete(sets, "removed", { propagationPolicy: "Background" });
        await untilReleased("job-set");
        expect(await podsOf("removed")).toEqual([]);
      });
    },
  );
});
