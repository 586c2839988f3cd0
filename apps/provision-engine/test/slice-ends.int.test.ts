import type { V1Job, V1PersistentVolumeClaim, V1Pod, V1ReplicaSet } from "@kubernetes/client-node";
import { toNanosecondsFromMs } from "@muster/leases";
import { toKubeFault, unlessMissing, type KubeCalls, type KubeObject } from "@muster/kube";
import { startKubeControllers, until } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { KINDS } from "../src/types/object-kinds.ts";
import { makeLeaseRecord } from "./a-lease.ts";
import { makeKubernetesWorkload } from "../src/types/kubernetes.ts";
import type { Workload } from "../src/types/workload.ts";
import { CLUSTERS, CONTROLLERS } from "./cluster-world.ts";
import { LONG } from "./engine-world.ts";
import { sliceWorld, type SliceWorld } from "./slice-world.ts";

const { signal } = new AbortController();
const nowNs = () => toNanosecondsFromMs(Date.now());
const HOUR_NS = toNanosecondsFromMs(3_600_000);
const JOBS = { apiVersion: "batch/v1", plural: "jobs" };
const REPLICA_SETS = { apiVersion: "apps/v1", plural: "replicasets" };
const CONFIG_MAPS = { apiVersion: "v1", plural: "configmaps" };

type Slice = Awaited<ReturnType<typeof openSlice>>;

/** The access of a slice's user. */
async function openSlice(world: SliceWorld, slices: Workload, id: string) {
  const lease = makeLeaseRecord({
    order: { id, type: "kubernetes", user: "user", data: '{"size":1}' },
    expiresAtNs: nowNs() + HOUR_NS,
  });
  const result = JSON.parse(await slices.provision(lease, signal)) as Record<"kubeconfig" | "namespace", string>;
  const { namespace } = result;
  const tenant: KubeCalls = await world.enter(result.kubeconfig);
  const pods = { ...KINDS.pod, namespace };
  // A real server knows of a new binding a moment later.
  await until("the key opens", async () => (await codeOf(tenant.list(pods))) === "done", LONG);
  if (world.isReal) await world.calls.create({ ...KINDS.serviceAccount, namespace }, { metadata: { name: "default" } });
  return { lease, namespace, tenant, pods };
}

function codeOf(call: Promise<unknown>): Promise<string> {
  return call.then(
    () => "done",
    (error: unknown) => {
      const fault = toKubeFault(error);
      return fault?.code === "invalid_request" ? fault.reason : (fault?.code ?? String(error));
    },
  );
}

const SPEC = { containers: [{ name: "main", image: "i", resources: { limits: { cpu: "50m", memory: "64Mi" } } }] };
const podOf = (name: string, more: object = {}) =>
  ({ metadata: { name }, spec: { ...SPEC, ...more } }) as unknown as KubeObject;
const held = (name: string, finalizer: string, more: object = {}) =>
  ({ metadata: { name, finalizers: [finalizer] }, ...more }) as KubeObject;
const patchOf = (body: object) => ({ kind: "merge", body }) as const;

describe.each(CLUSTERS)("on $title", (server) => {
  describe.skipIf(server.skip)("a slice", { timeout: 300_000 }, () => {
    const stack = new AsyncDisposableStack();
    let world: SliceWorld;
    let slices: Workload;

    beforeAll(async () => {
      world = stack.use(await sliceWorld(server));
      if (world.isReal)
        stack.use(await startKubeControllers(world.adminKubeconfig, [...CONTROLLERS, "job-controller"]));
      slices = makeKubernetesWorkload(world.cluster, nowNs);
      await world.calls.create({ apiVersion: "v1", plural: "nodes" }, { metadata: { name: "n1" } });
    }, 300_000);
    afterAll(() => stack.disposeAsync());

    /** On a node, where it must stop before it is removed; the test plays the kubelet. */
    async function run(pods: Slice["pods"], name: string): Promise<void> {
      const target = { apiVersion: "v1", kind: "Node", name: "n1" };
      await world.calls.create(pods, { metadata: { name }, target } as KubeObject, { subresource: "binding" });
      await world.calls.patch(pods, name, patchOf({ status: { phase: "Running" } }), { subresource: "status" });
    }

    it("stops its pods half a minute after the end of its lease, whatever grace period they or their user set", async () => {
      const { lease, tenant, pods, namespace } = await openSlice(world, slices, "1-1");
      const graces = { own: 300, deleted: 30, short: 5 };
      for (const [name, terminationGracePeriodSeconds] of Object.entries(graces)) {
        expect(await codeOf(tenant.create(pods, podOf(name, { terminationGracePeriodSeconds })))).toBe("done");
        await run(pods, name);
      }
      await tenant.delete(pods, "deleted", { gracePeriodSeconds: 300 });
      const ending = slices.decommission(lease, signal);
      // The caller below awaits its rejection.
      ending.catch(() => undefined);
      const going = async () => {
        const { items } = await world.calls.list<KubeObject>(pods);
        return items.map(({ metadata }) => metadata?.deletionGracePeriodSeconds ?? Infinity);
      };
      await until("none has more", async () => (await going()).every((seconds) => seconds <= 30), LONG);
      expect(await going()).toHaveLength(3);
      for (const name of Object.keys(graces)) await world.calls.delete(pods, name, { gracePeriodSeconds: 0 });
      await ending;
      expect(await unlessMissing(world.calls.get(KINDS.namespace, namespace))).toBeUndefined();
      await slices.decommission(lease, signal);
    });

    describe.skipIf(!server.isReal)("with the policies of deploy/kubernetes", () => {
      let slice: Slice;

      beforeAll(async () => {
        slice = await openSlice(world, slices, "2-1");
        const { tenant, namespace, pods } = slice;
        const maps = { ...CONFIG_MAPS, namespace };
        const dryRun = { query: { dryRun: "All" } };
        const year = podOf("year", { terminationGracePeriodSeconds: 31_536_000 });
        // Each policy becomes effective by itself, and objects admitted before that would stay.
        const refused = async () =>
          (await codeOf(tenant.create(maps, held("map", "example.org/hold"), dryRun))).includes("finalizers are not") &&
          (await codeOf(tenant.create(pods, year, dryRun))).includes("no pod of a lease has more than 300 seconds");
        await until("the policies are in force", refused, LONG);
      }, 300_000);

      it("has no pod that may take longer than five minutes to end, by itself, by deletion or by eviction", async () => {
        const { tenant, pods } = slice;
        const long = "no pod of a lease has more than 300 seconds";
        const create = (seconds: number) =>
          codeOf(tenant.create(pods, podOf("one", { terminationGracePeriodSeconds: seconds })));
        expect(await create(301)).toContain(long);
        expect(await create(300)).toBe("done");
        await run(pods, "one");
        const evict = (gracePeriodSeconds: number) => {
          const body = { metadata: { name: "one" }, deleteOptions: { gracePeriodSeconds } } as KubeObject;
          return codeOf(tenant.create(pods, body, { subresource: "eviction" }));
        };
        expect(await codeOf(tenant.delete(pods, "one", { gracePeriodSeconds: 301 }))).toContain(long);
        expect(await evict(301)).toContain(long);
        expect(await codeOf(tenant.patch(pods, "one", patchOf({ metadata: { labels: { a: "b" } } })))).toBe("done");
        expect(await evict(300)).toBe("done");
        expect(await codeOf(tenant.delete(pods, "one"))).toBe("done");
        expect(await codeOf(world.calls.delete(pods, "one", { gracePeriodSeconds: 0 }))).toBe("done");
      });

      it("has no finalizers without a controller, not even from templates of controllers", async () => {
        const { tenant, namespace } = slice;
        const not = "finalizers are not for leases to add";
        const maps = { ...CONFIG_MAPS, namespace };
        expect(await codeOf(tenant.create(maps, held("map", "kubernetes.io/pvc-protection")))).toContain(not);
        expect(await codeOf(tenant.create(maps, { metadata: { name: "map" } }))).toBe("done");
        const more = patchOf({ metadata: { finalizers: ["example.org/hold"] } });
        expect(await codeOf(tenant.patch(maps, "map", more))).toContain(not);
        // A status is written with its metadata.
        const jobs = { ...JOBS, namespace };
        const template = { spec: { restartPolicy: "Never", ...SPEC } };
        const suspended = { metadata: { name: "suspended" }, spec: { suspend: true, template } } as KubeObject;
        expect(await codeOf(tenant.create(jobs, suspended))).toBe("done");
        expect(await codeOf(tenant.patch(jobs, "suspended", more, { subresource: "status" }))).toContain(not);

        const labels = { app: "held" };
        const templated = { metadata: { labels, finalizers: ["example.org/hold"] }, spec: SPEC };
        const spec = { replicas: 1, selector: { matchLabels: labels }, template: templated };
        const sets = { ...REPLICA_SETS, namespace };
        await tenant.create(sets, { metadata: { name: "held" }, spec } as KubeObject);
        const isRefused = async () => {
          const { status } = await tenant.get<V1ReplicaSet & KubeObject>(sets, "held");
          return status?.conditions?.some(({ message }) => message?.includes(not)) === true;
        };
        await until("its pods are refused", isRefused, LONG);
        expect(await codeOf(tenant.delete(sets, "held", { propagationPolicy: "Foreground" }))).toBe("done");
        const isGone = async () => (await codeOf(tenant.get(sets, "held"))) === "not_found";
        await until("the collector has taken its finalizer off", isGone, LONG);
      });

      it("has Jobs and claims, which Kubernetes protects, and the additions of storage drivers", async () => {
        const { tenant, namespace, pods } = slice;
        const jobs = { ...JOBS, namespace };
        const template = { spec: { restartPolicy: "Never", ...SPEC } };
        expect(await codeOf(tenant.create(jobs, { metadata: { name: "job" }, spec: { template } } as KubeObject))).toBe(
          "done",
        );
        const podsOfJob = async () => {
          const query = { labelSelector: "batch.kubernetes.io/job-name=job" };
          return (await tenant.list<V1Pod & KubeObject>(pods, { query })).items;
        };
        await until("it has a pod", async () => (await podsOfJob()).length === 1, LONG);
        const [pod] = await podsOfJob();
        expect(pod?.metadata?.finalizers).toEqual(["batch.kubernetes.io/job-tracking"]);
        const succeeded = patchOf({ status: { phase: "Succeeded" } });
        await world.calls.patch(pods, pod?.metadata?.name ?? "", succeeded, { subresource: "status" });
        const jobOf = () => tenant.get<V1Job & KubeObject>(jobs, "job");
        await until("it is counted", async () => (await jobOf()).status?.succeeded === 1, LONG);
        const isFree = async () => (await podsOfJob())[0]?.metadata?.finalizers === undefined;
        await until("its pod is released", isFree, LONG);

        const claims = { ...KINDS.volumeClaim, namespace };
        const resources = { requests: { storage: "1Gi" } };
        const claim = { metadata: { name: "disk" }, spec: { accessModes: ["ReadWriteOnce"], resources } } as KubeObject;
        expect(await codeOf(tenant.create(claims, claim))).toBe("done");
        const { metadata } = await tenant.get<V1PersistentVolumeClaim & KubeObject>(claims, "disk");
        expect(metadata?.finalizers).toEqual(["kubernetes.io/pvc-protection"]);
        const cloning = "provisioner.storage.kubernetes.io/cloning-protection";
        const protectedBoth = patchOf({ metadata: { finalizers: [...(metadata?.finalizers ?? []), cloning] } });
        expect(await codeOf(tenant.patch(claims, "disk", protectedBoth))).toContain("finalizers are not");
        expect(await codeOf(world.calls.patch(claims, "disk", protectedBoth))).toBe("done");
        const label = patchOf({ metadata: { labels: { a: "b" } } });
        expect(await codeOf(tenant.patch(claims, "disk", label)), "what is there may stay").toBe("done");
        await world.calls.patch(claims, "disk", patchOf({ metadata: { finalizers: metadata?.finalizers } }));
      });

      it("is removed with all of that", async () => {
        await slices.decommission(slice.lease, signal);
        expect(await unlessMissing(world.calls.get(KINDS.namespace, slice.namespace))).toBeUndefined();
      });
    });
  });
});
