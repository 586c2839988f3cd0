import type { V1Pod, V1PersistentVolumeClaim, V1ResourceQuota, V1Secret, V1StatefulSet } from "@kubernetes/client-node";
import { nsFromMs } from "@muster/leases";
import { kubeFault, type KubeCalls, type KubeObject } from "@muster/kube";
import { until } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { KINDS } from "../src/adapters/object-kinds.ts";
import { aLease } from "../src/domain/a-lease.ts";
import { sliceNamespace, SLICE_ACCOUNT } from "../src/domain/build-slice.ts";
import { leaseLabels } from "../src/lease-labels.ts";
import { networkNamespace } from "../src/lease-place.ts";
import { kubernetesWorkload } from "../src/workloads/kubernetes.ts";
import type { Workload } from "../src/workloads/workload.ts";
import { zdbWorkload } from "../src/workloads/zdb.ts";
import { API_SERVERS } from "./api-servers.ts";
import { aUser, engineWorld, LONG, order, phase, ready, signedEnd, signedOrder } from "./engine-world.ts";
import { sliceWorld, type SliceWorld } from "./slice-world.ts";

const { signal } = new AbortController();
const nowNs = () => nsFromMs(Date.now());
const HOUR_NS = nsFromMs(3_600_000);

describe.each(API_SERVERS)("on $title", (server) => {
  describe.skipIf(server.skip)("a lease of the type", { timeout: 120_000 }, () => {
    let world: SliceWorld;
    let slices: Workload;
    let stores: Workload;

    beforeAll(async () => {
      world = await sliceWorld(server);
      slices = kubernetesWorkload(world.cluster, nowNs);
      stores = zdbWorkload(world.cluster);
    }, 120_000);

    afterAll(() => world[Symbol.asyncDispose]());

    const leaseOf = (type: string, id: string, data: object, run = 1) =>
      aLease({ order: { id, type, user: "user", data: JSON.stringify(data) }, run, expiresAtNs: nowNs() + HOUR_NS });

    /** What the call comes to while controllers do their work. */
    async function played<Value>(call: Promise<Value>): Promise<Value> {
      let isOver = false;
      const done = call.finally(() => {
        isOver = true;
      });
      // What it rejects with is for whoever awaits it below.
      done.catch(() => undefined);
      await until(
        "the call is over",
        async () => {
          if (!isOver) await world.play();
          return isOver;
        },
        LONG,
      );
      return done;
    }
    const codeOf = (call: Promise<unknown>) =>
      call.then(
        () => "done",
        (error: unknown) => {
          const fault = kubeFault(error);
          return fault?.code === "invalid_request" ? fault.reason : (fault?.code ?? String(error));
        },
      );
    const read = (result: string) => JSON.parse(result) as Readonly<Record<string, unknown>>;
    const find = <Object extends KubeObject>(
      kind: (typeof KINDS)[keyof typeof KINDS],
      name: string,
      namespace?: string,
    ) => world.cluster.objects.find<Object>(kind, { name, ...(namespace !== undefined && { namespace }) }, signal);
    const podOf = (name: string, cpu: string) => ({
      metadata: { name },
      spec: { containers: [{ name: "main", image: "i", resources: { limits: { cpu, memory: "1Gi" } } }] },
    });

    it("kubernetes is a namespace that its user may fill up to the size, with a key that ends with it", async () => {
      const lease = leaseOf("kubernetes", "1-1", { size: 1 });
      const namespace = sliceNamespace("1-1");
      const { kubeconfig, ...rest } = read(await played(slices.provision(lease, signal)));
      expect(rest).toEqual({ namespace, token_expires_at: expect.any(String) as unknown });
      const endsInMs = Date.parse(String(rest["token_expires_at"])) - Date.now();
      expect(endsInMs).toBeGreaterThan(3_000_000);
      expect(endsInMs).toBeLessThan(3_660_000);
      const made = await find(KINDS.namespace, namespace);
      expect(made?.metadata?.labels).toMatchObject({ "pod-security.kubernetes.io/enforce": "baseline" });
      const quota = await find<V1ResourceQuota>(KINDS.resourceQuota, SLICE_ACCOUNT, namespace);
      expect(quota?.spec?.hard).toMatchObject({
        "limits.cpu": "1",
        "limits.memory": "2Gi",
        "requests.storage": "50Gi",
      });

      const again = read(await played(slices.provision(lease, signal)));
      expect((await find(KINDS.namespace, namespace))?.metadata?.uid).toBe(made?.metadata?.uid);
      const tenant: KubeCalls = await world.enter(String(again["kubeconfig"]));
      const pods = { ...KINDS.pod, namespace };
      // A real server knows of a new binding a moment later.
      await until("the key opens", async () => (await codeOf(tenant.list(pods))) === "done", LONG);
      const account = { ...KINDS.serviceAccount, namespace };
      if (world.isReal) await world.calls.create(account, { metadata: { name: "default" } });
      expect(await codeOf(tenant.create(pods, podOf("one", "1")))).toBe("done");
      expect(await codeOf(tenant.create(pods, podOf("two", "1m")))).toContain("exceeded quota");
      expect(await codeOf(tenant.delete({ ...KINDS.resourceQuota, namespace }, SLICE_ACCOUNT))).toContain("forbidden");
      expect(await codeOf(tenant.list({ ...KINDS.pod, namespace: "default" }))).toContain("forbidden");
      expect(await codeOf(tenant.list(KINDS.namespace))).toContain("forbidden");
      const renewed = { metadata: { name: SLICE_ACCOUNT }, spec: { expirationSeconds: 7200 } } as KubeObject;
      expect(await codeOf(tenant.create(account, renewed, { subresource: "token" }))).toBe("done");
      const others = world.cluster.accessOf({ name: "default", namespace }, 600, signal);
      await expect(others, "of other accounts the engine gives no keys").rejects.toThrow("forbidden");

      await played(slices.decommission(lease, signal));
      expect(await find(KINDS.namespace, namespace)).toBeUndefined();
      await played(slices.decommission(lease, signal));
      // A real server remembers tokens for some seconds.
      if (!world.isReal) expect(await codeOf(tenant.list(pods))).not.toBe("done");
      expect(String(kubeconfig)).toContain(namespace);
    });

    it("kubernetes fails where its quota is never counted, its role is not there, or its name is somebody else's", async () => {
      const { cluster, impatient, calls } = world;
      const uncounted = leaseOf("kubernetes", "2-1", { size: 2 });
      if (world.isReal) {
        const hasty = kubernetesWorkload(impatient, nowNs);
        await expect(hasty.provision(uncounted, signal)).rejects.toMatchObject({
          fault: { code: "deadline_exceeded", operation: "the count of the quota" },
        });
        await played(slices.decommission(uncounted, signal));
      }
      const roleless = kubernetesWorkload({ ...cluster, slices: { role: "muster-lease-2", url: undefined } }, nowNs);
      await expect(roleless.provision(uncounted, signal)).rejects.toThrow("muster-lease-2");
      expect(await find(KINDS.namespace, sliceNamespace("2-1"))).toBeUndefined();
      const taken = sliceNamespace("2-2");
      await calls.create(KINDS.namespace, { metadata: { name: taken } });
      const lease = leaseOf("kubernetes", "2-2", { size: 2 });
      await expect(slices.provision(lease, signal)).rejects.toMatchObject({ fault: { code: "already_exists" } });
      await played(slices.decommission(lease, signal));
      expect((await find(KINDS.namespace, taken))?.metadata?.deletionTimestamp).toBeUndefined();
      await expect(slices.provision(leaseOf("kubernetes", "2-3", { size: 19 }), signal)).rejects.toThrow("size");
    });

    it("zdb is a store with a disk and a secret, in the network of its user, and goes with both", async () => {
      const namespace = networkNamespace("user", "net");
      await world.calls.create(KINDS.namespace, { metadata: { name: namespace } });
      const data = { size: 3, mode: "seq", disk_type: "ssd", password: "hush", network: "net" };
      const lease = leaseOf("zdb", "3-1", data);
      const result = await played(stores.provision(lease, signal));
      const host = `lease-3-1.${namespace}.svc`;
      expect(read(result)).toEqual({ namespace, host, addresses: [expect.any(String)], port: 9900 });
      expect(result).not.toContain("hush");
      const place = ["lease-3-1", namespace] as const;
      const claim = await find<V1PersistentVolumeClaim>(KINDS.volumeClaim, ...place);
      expect(claim?.spec).toMatchObject({ storageClassName: "fast", resources: { requests: { storage: "3Gi" } } });
      const secret = await find<V1Secret>(KINDS.secret, ...place);
      expect(secret?.data).toEqual({ password: Buffer.from("hush").toString("base64") });
      const set = await find<V1StatefulSet>(KINDS.statefulSet, ...place);
      const [container] = set?.spec?.template.spec?.containers ?? [];
      expect(container).toMatchObject({ image: "zdb:1", command: ["zdb", "--mode", "$(ZDB_MODE)"] });
      expect(JSON.stringify(container)).not.toContain("hush");
      expect(await played(stores.provision(lease, signal))).toBe(result);
      expect((await find(KINDS.statefulSet, ...place))?.metadata?.uid).toBe(set?.metadata?.uid);

      await played(stores.decommission(lease, signal));
      for (const kind of [KINDS.statefulSet, KINDS.service, KINDS.secret, KINDS.volumeClaim, KINDS.pod])
        expect((await world.cluster.objects.list<V1Pod>(lease, kind, namespace, signal)).length).toBe(0);
      await played(stores.decommission(lease, signal));
    });

    it("zdb waits for a store that does not start and says why, and is made of an image that the engine knows", async () => {
      const lease = leaseOf("zdb", "4-1", { size: 1, mode: "user", disk_type: "hdd" });
      await expect(zdbWorkload(world.impatient).provision(lease, signal)).rejects.toMatchObject({
        fault: { code: "deadline_exceeded", operation: expect.stringContaining("the start of the store") as unknown },
      });
      await played(stores.decommission(lease, signal));
      const none = zdbWorkload({ ...world.cluster, zdb: undefined });
      await expect(none.provision(lease, signal)).rejects.toThrow("PROVISION_ZDB_IMAGE");
      await played(none.decommission(lease, signal));
    });

    it("zdb is not ended by pods of others that carry its labels", async () => {
      const { cluster, calls, isReal } = world;
      const lease = leaseOf("zdb", "6-1", { size: 1, mode: "user", disk_type: "hdd" });
      await calls.create(KINDS.namespace, { metadata: { name: "others" } });
      const containerStatuses = [{ name: "main", image: "i", imageID: "", ready: false, restartCount: 4 }];
      const body = { status: { phase: "Running", containerStatuses } };
      // Its own comes last, and is seen last.
      for (const namespace of ["others", "default"]) {
        const account = { metadata: { name: "default" } };
        if (isReal) await calls.create({ ...KINDS.serviceAccount, namespace }, account);
        const { metadata, spec } = podOf("crashing", "1");
        const pod = { metadata: { ...metadata, labels: leaseLabels(lease) }, spec } as KubeObject;
        await calls.create({ ...KINDS.pod, namespace }, pod);
        await calls.patch({ ...KINDS.pod, namespace }, "crashing", { kind: "merge", body }, { subresource: "status" });
      }
      const seen = () => cluster.crashes.exitsOf(lease);
      await until("its pod is seen", () => seen().some(({ exits }) => exits === 4), LONG);
      expect(seen()).toHaveLength(1);
    });

    it("kubernetes or zdb is served by an engine, whose log tells no secret", async () => {
      await using engines = await engineWorld();
      const { leases } = engines;
      await engines.startEngine({
        MUSTER_KUBECONFIG: world.kubeconfig,
        PROVISION_ZDB_IMAGE: "zdb:1",
        MUSTER_LOG_LEVEL: "debug",
      });
      await ready(engines);
      const user = aUser();
      const reaches = (id: string, wanted: string) =>
        until(
          `${id} is ${wanted}`,
          async () => {
            await world.play();
            return (await phase(engines, id)) === wanted;
          },
          LONG,
        );
      const store = { size: 1, mode: "seq", disk_type: "hdd", password: "very-secret" };
      const orders = { "5-1": ["kubernetes", { size: 18 }], "5-2": ["zdb", store] } as const;
      for (const [id, [type, data]] of Object.entries(orders)) {
        await order(engines, signedOrder(user, { id, type, data: JSON.stringify(data) }));
        await reaches(id, "ACTIVE");
      }
      const { dataJson } = (await leases.getLease({ id: "5-1" })).lease?.record?.result ?? {};
      const { kubeconfig } = read(new TextDecoder().decode(dataJson ?? undefined));
      const { users } = read(String(kubeconfig)) as {
        readonly users: readonly { readonly user: { readonly token: string } }[];
      };
      const token = users[0]?.user.token ?? "";
      expect(token.length).toBeGreaterThan(100);
      for (const id of Object.keys(orders)) {
        await leases.endLease({ requestId: id, end: signedEnd(user, id) });
        await reaches(id, "ENDED");
      }
      expect(await find(KINDS.namespace, sliceNamespace("5-1"))).toBeUndefined();
      expect(await find(KINDS.statefulSet, "lease-5-2", "default")).toBeUndefined();
      const said = engines.said.join("\n");
      expect(said).not.toContain(token);
      expect(said).not.toContain("very-secret");
    });
  });
});
