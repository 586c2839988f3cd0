import type { CoreV1Event, V1Job, V1Pod } from "@kubernetes/client-node";
import { startSimulatedNodes } from "@muster/devcluster";
import { unlessMissing, type KubeCalls } from "@muster/kube";
import { kubeControllers, until, whatControllersLack } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { API_SERVERS } from "./api-servers.ts";
import { installDefinition, jobWorld, type JobWorld } from "./job-world.ts";

const TEAM = "team-a";
const PATIENCE = { timeoutMs: 60_000 };
const QUEUES = { apiVersion: "muster.dev/v1", plural: "queues" };
/** Without a taint manager, so that a test decides what ends. */
const CONTROLLERS = ["job-controller", "garbage-collector-controller", "pod-garbage-collector-controller"];

const lack = whatControllersLack();
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
  { timeout: 240_000 },
  () => {
    const stack = new AsyncDisposableStack();
    let world: JobWorld;
    let calls: KubeCalls;
    const jobs = { apiVersion: "batch/v1", plural: "jobs", namespace: TEAM };
    const pods = { apiVersion: "v1", plural: "pods", namespace: TEAM };

    beforeAll(async () => {
      const apiServer = await real.start();
      const startNodes = (kubeconfig: string, pools: Readonly<Record<string, number>>) =>
        startSimulatedNodes({ kubeconfig, pools, ...apiServer.nodeOptions });
      world = stack.use(await jobWorld(apiServer, { workers: 3 }, { startNodes }));
      ({ calls } = world);
      stack.use(await kubeControllers(world.kubeconfig, CONTROLLERS));
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
        spec: { namespaceSelector: { matchLabels: { team: "a" } } },
      });
      await world.startController({ JOB_BATCH_JOBS: "all", JOB_DISCOVER_MS: "300", JOB_SYNC_PERIOD_MS: "1000" });
    }, 240_000);
    afterAll(() => stack.disposeAsync());

    const get = (name: string): Promise<V1Job> => calls.get<V1Job>(jobs, name);
    const podsOf = async (name: string): Promise<readonly V1Pod[]> =>
      (await calls.list<V1Pod>(pods, { query: { labelSelector: `job-name=${name}` } })).items;
    const running = async (name: string): Promise<readonly V1Pod[]> =>
      (await podsOf(name)).filter(({ status }) => status?.phase === "Running");
    const untilRunning = (name: string, count: number): Promise<readonly V1Pod[]> =>
      until(
        `${count} pods of ${name} run`,
        async () => {
          const found = await running(name);
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

    it("run on their granted machines, are nobody's foreign use, and release them when they are complete", async () => {
      const spec = { suspend: true, parallelism: 2, completions: 3, completionMode: "Indexed" };
      await calls.create(jobs, batchJob("indexed", { flags: ["--run-ms=3000"], spec }));
      const found = await untilRunning("indexed", 2);
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

    it("that were created unsuspended are suspended, queued, and share machines by their requests", async () => {
      await calls.create(jobs, batchJob("plain", { cpu: "100m", spec: { parallelism: 4 } }));
      const found = await untilRunning("plain", 4);
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
  },
);
