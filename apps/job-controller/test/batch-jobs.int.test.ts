import { readFile } from "node:fs/promises";
import type { CoreV1Event, V1Job, V1Node, V1Pod, V1PodSpec } from "@kubernetes/client-node";
import { startSimulatedNodes, type SimulatedNodes } from "@muster/devcluster";
import { unlessMissing, type KubeCalls, type KubeObject } from "@muster/kube";
import { BATCH_JOB, buildBatchOwnerId } from "@muster/names";
import { startKubeControllers, until, findMissingControllers } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parseAllDocuments } from "yaml";
import { API_SERVERS } from "./api-servers.ts";
import { installDefinition, openJobWorld, type Controller, type JobWorld } from "./job-world.ts";

const TEAM = "team-a";
/** Kubernetes waits up to a minute before it creates a pod after several failed ones. */
const PATIENCE = { timeoutMs: 100_000 };
const NODES = { apiVersion: "v1", plural: "nodes" };
const QUEUES = { apiVersion: "muster.dev/v1", plural: "queues" };
/** The quota is larger than the machines, because a replacement counts beside the lost machine. */
const AMPLE = [
  { name: "cpu", nominal: 10_000 },
  { name: "memory", nominal: "1Pi" },
];
/** No taint manager runs, so that only the test ends pods. */
const CONTROLLERS = ["job-controller", "garbage-collector-controller", "pod-garbage-collector-controller"];

const ENV = {
  JOB_BATCH_JOBS: "all",
  JOB_DISCOVER_MS: "300",
  JOB_SYNC_PERIOD_MS: "1000",
  JOB_NODE_LOST_MS: "500",
  JOB_REFUSED_RETRY_MS: "1000",
  JOB_REPLACEMENT_WAIT_MS: "5000",
};

const lack = findMissingControllers();
const [, real] = API_SERVERS;
const reason = real.skip ? real.title : lack === undefined ? real.title : `${real.title} (skipped: ${lack})`;

type JobOptions = {
  readonly queue?: string;
  readonly cpu?: string;
  readonly flags?: readonly string[];
  readonly spec?: object;
  readonly pod?: object;
};

function batchJob(name: string, { queue = "team-a", cpu, flags = [], spec = {}, pod = {} }: JobOptions = {}): V1Job {
  const resources = cpu === undefined ? {} : { resources: { requests: { cpu } } };
  const container = { name: "main", image: "none", command: ["simulate", ...flags], ...resources };
  const template = {
    metadata: { annotations: { own: "kept" } },
    spec: { restartPolicy: "Never", nodeSelector: { pool: "workers" }, containers: [container], ...pod },
  };
  return { metadata: { name, labels: { "muster.dev/queue": queue } }, spec: { template, ...spec } };
}

/** Kubernetes' own controller of Jobs runs only beside a real API server. */
describe.skipIf(real.skip || lack !== undefined)(
  `batch Jobs with a queue, under ${reason}`,
  { timeout: 400_000 },
  () => {
    const stack = new AsyncDisposableStack();
    let world: JobWorld;
    let calls: KubeCalls;
    let nodes: SimulatedNodes;
    let controller: Controller;
    const jobs = { apiVersion: "batch/v1", plural: "jobs", namespace: TEAM };
    const pods = { apiVersion: "v1", plural: "pods", namespace: TEAM };

    beforeAll(async () => {
      const apiServer = await real.start();
      const startNodes = async (kubeconfig: string, pools: Readonly<Record<string, number>>) => {
        const timing = { nodeGraceMs: 4000, leaseEveryMs: 500 };
        nodes = await startSimulatedNodes({ kubeconfig, pools, ...timing, ...apiServer.nodeOptions });
        return nodes;
      };
      world = stack.use(await openJobWorld(apiServer, { workers: 3 }, { startNodes }));
      ({ calls } = world);
      stack.use(await startKubeControllers(world.kubeconfig, CONTROLLERS));
      await installDefinition(calls, "muster.dev_queues.yaml");
      const labels = { team: "a" };
      await calls.create({ apiVersion: "v1", plural: "namespaces" }, { metadata: { name: TEAM, labels } });
      await calls.create(
        { apiVersion: "v1", plural: "serviceaccounts", namespace: TEAM },
        { metadata: { name: "default" } },
      );
      await calls.create(QUEUES, {
        apiVersion: "muster.dev/v1",
        kind: "Queue",
        metadata: { name: "team-a" },
        spec: { namespaceSelector: { matchLabels: { team: "a" } }, quotas: [{ pool: "workers", resources: AMPLE }] },
      });
      const classes = { apiVersion: "scheduling.k8s.io/v1", plural: "priorityclasses" };
      await calls.create(classes, { metadata: { name: "urgent" }, value: 700 });
      await calls.create(classes, { metadata: { name: "usual" }, value: 7, globalDefault: true });
      controller = await world.startController(ENV);
    }, 240_000);
    afterAll(() => stack.disposeAsync());

    const get = (name: string): Promise<V1Job> => calls.get<V1Job>(jobs, name);
    const podsOf = async (name: string): Promise<readonly V1Pod[]> =>
      (await calls.list<V1Pod>(pods, { query: { labelSelector: `job-name=${name}` } })).items;
    const running = async (name: string): Promise<readonly V1Pod[]> =>
      (await podsOf(name)).filter(({ status }) => status?.phase === "Running");
    /** Excludes pods that Kubernetes created before their Job was suspended. */
    const placed = async (name: string): Promise<readonly V1Pod[]> =>
      (await running(name)).filter(({ metadata }) => metadata?.labels?.["muster.dev/component"] !== undefined);
    const untilPlaced = (name: string, count: number): Promise<readonly V1Pod[]> =>
      until(
        `${count} pods of ${name} run in their places`,
        async () => {
          const found = await placed(name);
          return found.length === count && found;
        },
        PATIENCE,
      );
    const isTrue = ({ status }: V1Job, type: string): boolean =>
      status?.conditions?.some((each) => each.type === type && each.status === "True") === true;
    const untilTrue = (name: string, type: string): Promise<V1Job> =>
      until(
        `${name} is ${type}`,
        async () => {
          const job = await get(name);
          return isTrue(job, type) && job;
        },
        PATIENCE,
      );
    const reservations = async () => (await world.ledger.listReservations({ ownerKind: "batch-job" })).reservations;
    const untilReleased = (): Promise<boolean> =>
      until("nothing is reserved", async () => (await reservations()).length === 0, PATIENCE);
    const kill = async (name: string): Promise<void> => {
      await nodes.kill(name);
      const isReady = ({ status }: V1Node): boolean =>
        status?.conditions?.some((each) => each.type === "Ready" && each.status === "True") === true;
      await until(`${name} is lost`, async () => !isReady(await calls.get<V1Node>(NODES, name)), PATIENCE);
    };
    const eventsOf = async (name: string): Promise<readonly string[]> => {
      const { items } = await calls.list<CoreV1Event>({ apiVersion: "v1", plural: "events", namespace: TEAM });
      const own = items.filter(
        ({ involvedObject, source }) => involvedObject.name === name && source?.component !== "job-controller",
      );
      return own.map(({ type, reason: why, message }) => `${type} ${why}: ${message}`);
    };
    const remove = async (name: string): Promise<void> => {
      await calls.delete(jobs, name, { propagationPolicy: "Background" });
      await until(`${name} is gone`, async () => (await unlessMissing(get(name))) === undefined, PATIENCE);
    };
    const foreignPods = async (): Promise<number> => {
      const { machines } = await world.ledger.listMachines({ pool: "workers" });
      return machines.reduce((sum, { foreign }) => sum + (foreign?.pods ?? 0), 0);
    };

    it("run on their granted machines, do not count as foreign use, and release them when they are complete", async () => {
      const spec = { suspend: true, parallelism: 2, completions: 3, completionMode: "Indexed" };
      await calls.create(jobs, batchJob("indexed", { flags: ["--run-ms=3000"], spec }));
      const found = await untilPlaced("indexed", 2);
      const [reservation] = await reservations();
      expect(reservation).toMatchObject({ queue: "team-a", needs: [{ component: "pod-0" }, { component: "pod-1" }] });
      expect(reservation?.owner?.id).toMatch(/^team-a-indexed-[0-9a-f]{12}$/);
      const granted = new Set(reservation?.machines.map(({ node }) => node));
      expect(new Set(found.map(({ spec: of }) => of?.nodeName))).toEqual(granted);
      expect(found[0]?.metadata?.annotations).toMatchObject({ own: "kept" });
      expect(found[0]?.metadata?.labels).toMatchObject({ "muster.dev/exclusive": "true" });
      expect(await foreignPods()).toBe(0);
      const job = await untilTrue("indexed", "Complete");
      expect(job.status).toMatchObject({ succeeded: 3, completedIndexes: "0-2" });
      await untilReleased();
      expect(await eventsOf("indexed")).toEqual(
        expect.arrayContaining([
          "Normal Queued: waits in the queue team-a for 2 of its pods together",
          expect.stringMatching(/^Normal Admitted: by the queue team-a on workers-/),
        ]),
      );
    });

    it("are not changed otherwise: only spec.suspend and the gate of their template, and of a pod labels, node affinity and gate", async () => {
      const toleration = { key: "own", operator: "Exists" };
      const pod = { tolerations: [toleration], schedulingGates: [], affinity: { podAntiAffinity: {} } };
      const written = await calls.create<V1Job>(jobs, batchJob("kept", { cpu: "100m", spec: { suspend: true }, pod }));
      const [placedPod] = await untilPlaced("kept", 1);
      nodes.finish(`${TEAM}/${placedPod?.metadata?.name}`);
      const ended = await untilTrue("kept", "Complete");
      expect([ended.metadata?.labels, ended.metadata?.annotations]).toEqual([
        written.metadata?.labels,
        written.metadata?.annotations,
      ]);
      const [specOfEnd, specOfStart] = [ended, written].map(({ spec }) => {
        const { suspend: _, template, ...rest } = spec ?? { template: {} };
        const { schedulingGates: __, ...ofPods } = template.spec ?? {};
        return { ...rest, template: { ...template, spec: ofPods } };
      });
      expect(specOfEnd).toEqual(specOfStart);
      const { affinity: ofTemplate, containers, ...ofPods } = specOfStart?.template.spec as V1PodSpec;
      const { nodeAffinity, ...affinity } = placedPod?.spec?.affinity ?? {};
      expect([affinity, nodeAffinity]).toEqual([ofTemplate, expect.anything()]);
      expect(placedPod?.spec).toMatchObject({ ...ofPods, tolerations: expect.arrayContaining([toleration]) as object });
      expect(placedPod?.spec?.containers[0]).toMatchObject({ ...containers[0] });
      expect(placedPod?.metadata?.annotations).toEqual(specOfStart?.template.metadata?.annotations);
      expect(placedPod?.metadata?.labels).toMatchObject({ ...specOfStart?.template.metadata?.labels });
      await remove("kept");
      await untilReleased();
    });

    it("that were created unsuspended are suspended, queued, and share machines by their requests", async () => {
      await calls.create(jobs, batchJob("plain", { cpu: "100m", spec: { parallelism: 4 } }));
      const found = await untilPlaced("plain", 4);
      const [reservation] = await reservations();
      expect(reservation?.machines.every(({ shared }) => shared?.requests["cpu"] === 100)).toBe(true);
      expect(found.map(({ metadata }) => metadata?.labels?.["muster.dev/component"]).sort()).toEqual([
        "pod-0",
        "pod-1",
        "pod-2",
        "pod-3",
      ]);
      await until("the watcher counts them as the grant", async () => (await foreignPods()) === 0, PATIENCE);
      await remove("plain");
      await untilReleased();
    });

    it("have the priority of the PriorityClass of their template, otherwise of the default class of the cluster", async () => {
      const spec = { suspend: true };
      await calls.create(jobs, batchJob("first", { cpu: "100m", spec, pod: { priorityClassName: "urgent" } }));
      await calls.create(jobs, batchJob("second", { cpu: "100m", spec }));
      for (const name of ["first", "second"]) await untilPlaced(name, 1);
      const priorities = (await reservations()).map(({ owner, priority }) => [owner?.id.split("-")[2], priority]);
      expect(Object.fromEntries(priorities)).toEqual({ first: 700, second: 7 });
      for (const name of ["first", "second"]) await remove(name);
      await untilReleased();
    });

    it("wait suspended for an unknown queue, with an event that states the remedy", async () => {
      await calls.create(jobs, batchJob("early", { queue: "team-z" }));
      const isReported = (event: string): boolean => event.includes('names the queue "team-z", which does not exist');
      await until("the event", async () => (await eventsOf("early")).some(isReported), PATIENCE);
      expect((await eventsOf("early")).find(isReported)).toMatch(
        /^Warning Waiting: QUEUE_UNKNOWN: .*name one of its queues: team-a$/,
      );
      expect((await get("early")).spec?.suspend).toBe(true);
      expect(await reservations()).toEqual([]);
      const labels = { "muster.dev/queue": "team-a" };
      await calls.patch(jobs, "early", { kind: "merge", body: { metadata: { labels } } });
      await untilPlaced("early", 1);
      await remove("early");
      await untilReleased();
    });

    it("keep the place of a failed pod for the pod that replaces it", async () => {
      await calls.create(jobs, batchJob("failing", { spec: { parallelism: 2, completions: 2, backoffLimit: 3 } }));
      const [first] = await untilPlaced("failing", 2);
      const places = async (): Promise<readonly string[]> =>
        (await placed("failing")).map(
          ({ metadata, spec }) => `${metadata?.labels?.["muster.dev/component"]} ${spec?.nodeName}`,
        );
      const before = [...(await places())].sort();
      nodes.finish(`${TEAM}/${first?.metadata?.name}`, 1);
      await until("it failed", async () => ((await get("failing")).status?.failed ?? 0) === 1, PATIENCE);
      await untilPlaced("failing", 2);
      expect([...(await places())].sort()).toEqual(before);
      for (const { metadata } of await running("failing")) nodes.finish(`${TEAM}/${metadata?.name}`);
      await untilTrue("failing", "Complete");
      await untilReleased();
    });

    it("get another machine for a pod whose room foreign pods have taken", async () => {
      await calls.create(jobs, batchJob("crowded", { cpu: "100m", spec: { parallelism: 1, completions: 2 } }));
      const [first] = await untilPlaced("crowded", 1);
      const node = first?.spec?.nodeName ?? "";
      const cpu = (await calls.get<V1Node>(NODES, node)).status?.allocatable?.["cpu"] ?? "";
      const container = { name: "main", image: "none", command: ["simulate"], resources: { requests: { cpu } } };
      await calls.create(pods, { metadata: { name: "web" }, spec: { nodeName: node, containers: [container] } });
      await until("the watcher counts the foreign pod", async () => (await foreignPods()) === 1, PATIENCE);
      nodes.finish(`${TEAM}/${first?.metadata?.name}`);
      const isElsewhere = async (): Promise<boolean> =>
        (await placed("crowded")).some(({ spec }) => spec?.nodeName !== node);
      await until("the next pod runs on another machine", isElsewhere, PATIENCE);
      await calls.delete(pods, "web", { gracePeriodSeconds: 0 });
      await remove("crowded");
      await untilReleased();
    });

    it("get a replacement for a lost machine, and are queued again if none is available", async () => {
      await calls.create(jobs, batchJob("losing", { spec: { parallelism: 2, completions: 2 } }));
      const [first, second] = await untilPlaced("losing", 2);
      const [lost = "", kept = ""] = [first?.spec?.nodeName, second?.spec?.nodeName];
      await kill(lost);
      await calls.delete(pods, first?.metadata?.name ?? "");
      const others = async (): Promise<boolean> => {
        const on = (await placed("losing")).filter(({ metadata }) => metadata?.deletionTimestamp === undefined);
        return on.length === 2 && on.every(({ spec }) => spec?.nodeName !== lost);
      };
      await until("it runs on another machine", others, PATIENCE);
      expect((await reservations()).map(({ owner }) => owner?.id.includes("--pod-2") === true).sort()).toEqual([
        false,
        true,
      ]);

      await kill(kept);
      for (const { metadata, spec } of await podsOf("losing"))
        if (spec?.nodeName === kept || spec?.nodeName === lost)
          await calls.delete(pods, metadata?.name ?? "", { gracePeriodSeconds: 0 });
      const isRequeued = async (): Promise<boolean> =>
        (await get("losing")).spec?.suspend === true && (await podsOf("losing")).length === 0;
      await until("it is queued again", isRequeued, PATIENCE);
      const isReported = (event: string): boolean => event.startsWith("Warning Waiting: POOL_CAPACITY");
      await until("one machine is too few", async () => (await eventsOf("losing")).some(isReported), PATIENCE);
      expect(await reservations()).toEqual([]);
      for (const name of [lost, kept]) await nodes.restart(name);
      await untilPlaced("losing", 2);
      await remove("losing");
      await untilReleased();
    });

    it("release their machines if they are not ready in time, explain their pause, and are admitted again after it", async () => {
      const setReadyTimeout = (readyTimeout: string | null): Promise<unknown> =>
        calls.patch(QUEUES, "team-a", { kind: "merge", body: { spec: { readyTimeout } } });
      await setReadyTimeout("1s");
      const spec = { suspend: true, parallelism: 2, completions: 2 };
      await calls.create(jobs, batchJob("slow", { cpu: "100m", flags: ["--start-ms=6000"], spec }));
      const progress = async () => (await get("slow")).metadata?.annotations?.["muster.dev/progress"] ?? "";
      const id = buildBatchOwnerId(BATCH_JOB, {
        namespace: TEAM,
        name: "slow",
        uid: (await get("slow")).metadata?.uid ?? "",
      });
      const explain = async (named = id): Promise<string> => {
        const key = { kind: BATCH_JOB, name: named, namespace: TEAM };
        const { explanation } = await world.jobs.explainJob({ key });
        return (explanation?.reasons ?? []).map(({ code, message }) => `${code}: ${message}`).join();
      };
      const isPause = (text: string): boolean => /^READY_TIMEOUT: .*requested again at \d{4}-/.test(text);
      await until(
        "the explanation states why it waits, and until when",
        async () => isPause(await explain()) && isPause(await explain("slow")),
        PATIENCE,
      );
      await until("it was released twice", async () => /"readyTimeouts":[2-9]/.test(await progress()), PATIENCE);
      const expected =
        /^Warning ReadyTimeout: 0 of 2 pods were ready within the readyTimeout 1s of the queue team-a, 2 times/;
      await until("the event", async () => (await eventsOf("slow")).some((event) => expected.test(event)), PATIENCE);
      await setReadyTimeout(null);
      const found = await untilPlaced("slow", 2);
      await until("its progress is removed", async () => (await progress()) === "", PATIENCE);
      expect((await get("slow")).status?.failed ?? 0).toBe(0);
      for (const { metadata } of found) nodes.finish(`${TEAM}/${metadata?.name}`);
      await untilTrue("slow", "Complete");
      await untilReleased();
    });

    it("continue without their label, and their pods become ordinary pods", async () => {
      await calls.create(jobs, batchJob("leaving", { cpu: "100m", spec: { parallelism: 2, completions: 3 } }));
      const [first] = await untilPlaced("leaving", 2);
      await calls.patch(jobs, "leaving", {
        kind: "merge",
        body: { metadata: { labels: { "muster.dev/queue": null } } },
      });
      await untilReleased();
      expect(await running("leaving")).toHaveLength(2);
      nodes.finish(`${TEAM}/${first?.metadata?.name}`);
      await until("the third pod is opened", async () => (await podsOf("leaving")).length === 3, PATIENCE);
      await until("the third pod runs", async () => (await running("leaving")).length === 2, PATIENCE);
      await remove("leaving");
    });

    it("continue under another leader, wherever the first one dies", async () => {
      await calls.create(jobs, batchJob("orphan", { cpu: "100m", spec: { suspend: true, parallelism: 3 } }));
      await until("it is reserved", async () => (await reservations()).length === 1, PATIENCE);
      await controller.kill();
      await world.startController(ENV);
      const found = await untilPlaced("orphan", 3);
      expect(found.map(({ metadata }) => metadata?.labels?.["muster.dev/component"]).sort()).toEqual([
        "pod-0",
        "pod-1",
        "pod-2",
      ]);
      await remove("orphan");
      await untilReleased();
    });

    it("are suspended at their creation, if the admission policy is installed", async () => {
      const job = batchJob("policy");
      const isSuspended = async (): Promise<boolean> =>
        (await calls.create<V1Job>(jobs, job, { query: { dryRun: "All" } })).spec?.suspend === true;
      expect(await isSuspended()).toBe(false);
      const policy = await readFile(
        new URL("../../../deploy/kubernetes/batch-jobs-suspend.yaml", import.meta.url),
        "utf8",
      );
      for (const document of parseAllDocuments(policy)) {
        const object = document.toJS() as KubeObject;
        const plural =
          object.kind === "MutatingAdmissionPolicy" ? "mutatingadmissionpolicies" : "mutatingadmissionpolicybindings";
        await calls.create({ apiVersion: "admissionregistration.k8s.io/v1", plural }, object);
      }
      await until("the policy is in force", isSuspended, PATIENCE);
      delete job.metadata?.labels;
      expect(await isSuspended()).toBe(false);
    });
  },
);
