import { readFile } from "node:fs/promises";
import type { V1Pod, V1PersistentVolumeClaim, V1ResourceQuota, V1Secret, V1StatefulSet } from "@kubernetes/client-node";
import { publishEvent } from "@muster/bus";
import { toNanosecondsFromMs } from "@muster/leases";
import { openText } from "@muster/leases/keys";
import { toWireOrder } from "@muster/leases/wire";
import { toKubeFault, type KubeCalls, type KubeObject } from "@muster/kube";
import { muster, subjects } from "@muster/proto";
import { until } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { KINDS } from "../src/types/object-kinds.ts";
import { makeLeaseRecord } from "./a-lease.ts";
import { buildSliceNamespaceName, SLICE_ACCOUNT, makeKubernetesWorkload } from "../src/types/kubernetes.ts";
import { buildLeaseLabels, buildNetworkNamespaceName } from "../src/types/lease-names.ts";
import { makeNetworkWorkload } from "../src/types/network.ts";
import type { Workload } from "../src/types/workload.ts";
import { makeZdbWorkload } from "../src/types/zdb.ts";
import { API_SERVERS } from "./api-servers.ts";
import {
  makeUser,
  openEngineWorld,
  listHistory,
  LONG,
  sendOrder,
  readPhase,
  waitUntilReady,
  signUnchanged,
  signEnd,
  signOrder,
  type EngineWorld,
} from "./engine-world.ts";
import { sliceWorld, type SliceWorld } from "./slice-world.ts";

const { signal } = new AbortController();
const nowNs = () => toNanosecondsFromMs(Date.now());
const HOUR_NS = toNanosecondsFromMs(3_600_000);

type Heard = { readonly subject: string; readonly text: string };

/** Everything sent over the bus from now on, and so everything written to streams and buckets. */
function hear({ bus }: EngineWorld): readonly Heard[] {
  const heard: Heard[] = [];
  bus.connection.subscribe(">", {
    callback: (_error, { subject, data, headers }) => {
      const values = headers?.keys().flatMap((name) => headers.values(name)) ?? [];
      heard.push({ subject, text: [...values, new TextDecoder().decode(data)].join("\n") });
    },
  });
  return heard;
}

describe.each(API_SERVERS)("on $title", (server) => {
  describe.skipIf(server.skip)("a lease of the type", { timeout: 300_000 }, () => {
    let world: SliceWorld;
    let slices: Workload;
    let stores: Workload;

    beforeAll(async () => {
      world = await sliceWorld(server);
      slices = makeKubernetesWorkload(world.cluster, nowNs);
      stores = makeZdbWorkload(world.cluster);
    }, 300_000);

    afterAll(() => world[Symbol.asyncDispose]());

    const leaseOf = (type: string, id: string, data: object, run = 1) =>
      makeLeaseRecord({
        order: { id, type, user: "user", data: JSON.stringify(data) },
        run,
        expiresAtNs: nowNs() + HOUR_NS,
      });

    /** The outcome of the call while controllers work. */
    async function played<Value>(call: Promise<Value>): Promise<Value> {
      let isOver = false;
      const done = call.finally(() => {
        isOver = true;
      });
      // The caller below awaits its rejection.
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
          const fault = toKubeFault(error);
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

    /** Expects the limits of a user of a slice. */
    async function expectLimits(tenant: KubeCalls, namespace: string): Promise<void> {
      const silent = { metadata: { name: "silent" }, spec: { containers: [{ name: "main", image: "i" }] } };
      expect(await codeOf(tenant.create({ ...KINDS.pod, namespace }, silent as KubeObject))).toContain(
        "exceeded quota: muster-lease, requested: limits.cpu=100m",
      );
      // The rest of the quota.
      const least = { limits: { cpu: "0", memory: "0" } };
      const podWith = (more: object) =>
        ({
          metadata: { generateName: "p-" },
          spec: { containers: [{ name: "main", image: "i", resources: least }], ...more },
        }) as KubeObject;
      const priority = podWith({ priorityClassName: "system-cluster-critical" });
      expect(await codeOf(tenant.create({ ...KINDS.pod, namespace }, priority))).toContain(
        "exceeded quota: muster-lease-priorities, requested: pods=1",
      );
      const daemons = { apiVersion: "apps/v1", plural: "daemonsets", namespace };
      expect(await codeOf(tenant.create(daemons, { metadata: { name: "each" } }))).toContain("forbidden");
      const status = { kind: "merge", body: { status: { phase: "Failed" } } } as const;
      const wrong = tenant.patch({ ...KINDS.pod, namespace }, "one", status, { subresource: "status" });
      expect(await codeOf(wrong), "the status of a pod is its node's").toContain("forbidden");
      const ingresses = { apiVersion: "networking.k8s.io/v1", plural: "ingresses", namespace };
      if (!world.isReal) return;
      expect(await codeOf(tenant.list(ingresses))).toContain("forbidden");
      const service = (more: object) => ({
        metadata: { generateName: "s-" },
        spec: { ports: [{ port: 80 }], ...more },
      });
      const taken = service({ externalIPs: ["10.0.0.1"] }) as KubeObject;
      const services = { ...KINDS.service, namespace };
      const refused = async () => (await codeOf(tenant.create(services, taken))).includes("externalIPs are not");
      await until("the policy is in force", refused, LONG);
      expect(await codeOf(tenant.create(services, service({}) as KubeObject))).toBe("done");
      const pods = { ...KINDS.pod, namespace };
      const tolerating = (toleration: object) => ({ tolerations: [{ effect: "NoSchedule", ...toleration }] });
      const closed = ["muster.dev/unopened", "node.kubernetes.io/unschedulable"];
      for (const toleration of [{ operator: "Exists" }, ...closed.map((key) => ({ key, operator: "Exists" }))])
        expect(await codeOf(tenant.create(pods, podWith(tolerating(toleration))))).toContain("taints of nodes are not");
      expect(await codeOf(tenant.create(pods, podWith({ nodeName: "n1" })))).toContain("nodes are not for pods");
      const more = { kind: "merge", body: { spec: tolerating({ operator: "Exists" }) } } as const;
      expect(await codeOf(tenant.patch(pods, "one", more))).toContain("taints of nodes are not");
      const label = { kind: "merge", body: { metadata: { labels: { a: "b" } } } } as const;
      expect(await codeOf(tenant.patch(pods, "one", label))).toBe("done");
      const elsewhere = { ...services, namespace: "default" };
      expect(await codeOf(world.calls.create(elsewhere, taken)), "others are not concerned").toBe("done");
    }

    it("kubernetes is a namespace that its user may fill up to its size, with a token that ends with it", async () => {
      const lease = leaseOf("kubernetes", "1-1", { size: 1 });
      const namespace = buildSliceNamespaceName("1-1");
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
        "requests.storage": "40Gi",
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
      await expectLimits(tenant, namespace);
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

    it("an engine has rights in the namespaces that it has created for leases, and nowhere else", async () => {
      const { cluster, calls, isReal } = world;
      const secrets = { ...KINDS.secret, namespace: "muster-system" };
      await calls.create(secrets, { metadata: { name: "key" } });
      expect(await codeOf(cluster.calls.get(secrets, "key"))).toContain("cannot get");
      expect(await codeOf(cluster.calls.list(secrets))).toContain("cannot list");
      expect(await codeOf(cluster.calls.delete(secrets, "key"))).toContain("cannot delete");
      const nowhere = { ...KINDS.secret, namespace: "muster-none" };
      expect((await cluster.calls.list(nowhere)).items).toEqual([]);
      expect(await codeOf(cluster.calls.get(nowhere, "key"))).toBe("not_found");
      expect(await codeOf(cluster.calls.create(nowhere, { metadata: { name: "key" } }))).toBe("not_found");
      const network = leaseOf("network", "7-1", { name: "rights" });
      await played(makeNetworkWorkload(cluster).provision(network, signal));
      const inside = { ...KINDS.secret, namespace: buildNetworkNamespaceName("user", "rights") };
      await calls.create(inside, { metadata: { name: "own", labels: buildLeaseLabels(network) } });
      expect(await codeOf(cluster.calls.get(inside, "own"))).toBe("done");
      // A cluster-wide list finds the objects in lease namespaces.
      const { items } = await cluster.calls.list<V1Secret & KubeObject>(KINDS.secret);
      expect(items.map(({ metadata }) => metadata?.name)).toContain("own");
      expect(items.map(({ metadata }) => metadata?.name)).not.toContain("key");
      if (!isReal) return;
      const binding = (namespace: string) => {
        const role = { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "muster-lease-engine" };
        const body = { metadata: { generateName: "b-" }, roleRef: role, subjects: [] } as KubeObject;
        return codeOf(cluster.calls.create({ ...KINDS.roleBinding, namespace }, body));
      };
      await until("the policy is in force", async () => (await binding("muster-system")).includes("only in"), LONG);
      expect(await binding(inside.namespace)).toBe("done");
      expect(await codeOf(cluster.calls.delete(KINDS.namespace, "muster-system"))).toContain(
        "only namespaces of leases",
      );
      await calls.create({ ...KINDS.serviceAccount, namespace: inside.namespace }, { metadata: { name: "default" } });
      const pods = { ...KINDS.pod, namespace: inside.namespace };
      await calls.create(pods, podOf("one", "1"));
      expect(await codeOf(cluster.calls.delete(pods, "one"))).toContain("only pods of slices");
      const plain = { metadata: { name: "plain" } };
      expect(await codeOf(cluster.calls.create(KINDS.namespace, plain))).toContain("only namespaces of leases");
      const body = { metadata: { labels: buildLeaseLabels(network) } };
      const label = cluster.calls.patch(KINDS.namespace, "muster-system", { kind: "merge", body });
      expect(await codeOf(label)).toContain("cannot patch");
    });

    it("kubernetes does not let its user shut out the engine: a foreign binding of its name is replaced", async () => {
      const { cluster, calls } = world;
      const network = leaseOf("network", "8-1", { name: "beside" });
      await played(makeNetworkWorkload(cluster).provision(network, signal));
      const beside = { ...KINDS.secret, namespace: buildNetworkNamespaceName("user", "beside") };
      await calls.create(beside, { metadata: { name: "found", labels: buildLeaseLabels(network) } });
      const lease = leaseOf("kubernetes", "8-2", { size: 1 });
      const { kubeconfig, namespace } = read(await played(slices.provision(lease, signal)));
      const tenant: KubeCalls = await world.enter(String(kubeconfig));
      const place = { apiVersion: "rbac.authorization.k8s.io/v1", namespace: String(namespace) };
      const bindings = { ...place, plural: "rolebindings" };
      const secrets = { ...KINDS.secret, namespace: place.namespace };
      expect(await codeOf(cluster.calls.list(secrets))).toBe("done");
      const role = { metadata: { name: "none" }, rules: [] } as KubeObject;
      const opened = async () => (await codeOf(tenant.create({ ...place, plural: "roles" }, role))) === "done";
      await until("the key opens", opened, LONG);
      const roleRef = { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name: "none" };
      const other = { metadata: { name: "muster-lease-engine" }, roleRef, subjects: [] } as KubeObject;
      await tenant.delete(bindings, "muster-lease-engine");
      await tenant.create(bindings, other);
      // The engine's account without the rights that it grants itself.
      const bare: KubeCalls = await world.enter(await readFile(world.kubeconfig, "utf8"));
      const refused = async () => (await codeOf(bare.list(secrets))).includes("cannot list");
      await until("the engine is shut out", refused, LONG);
      const { items } = await cluster.calls.list(KINDS.secret);
      expect(items.map(({ metadata }) => metadata?.name)).toContain("found");
      expect(await refused(), "it was not asked for there").toBe(true);
      expect(await codeOf(cluster.calls.list(secrets))).toBe("done");
      await played(slices.decommission(lease, signal));
      await played(makeNetworkWorkload(cluster).decommission(network, signal));
    });

    it("kubernetes fails if its quota is never counted, its role is missing, or its name has another owner", async () => {
      const { cluster, impatient, calls } = world;
      const uncounted = leaseOf("kubernetes", "2-1", { size: 2 });
      if (world.isReal) {
        const hasty = makeKubernetesWorkload(impatient, nowNs);
        await expect(hasty.provision(uncounted, signal)).rejects.toMatchObject({
          fault: { code: "deadline_exceeded", operation: "the count of the quota" },
        });
        await played(slices.decommission(uncounted, signal));
      }
      const roleless = makeKubernetesWorkload(
        { ...cluster, slices: { role: "muster-lease-2", url: undefined } },
        nowNs,
      );
      await expect(roleless.provision(uncounted, signal)).rejects.toThrow("muster-lease-2");
      expect(await find(KINDS.namespace, buildSliceNamespaceName("2-1"))).toBeUndefined();
      const taken = buildSliceNamespaceName("2-2");
      await calls.create(KINDS.namespace, { metadata: { name: taken } });
      const lease = leaseOf("kubernetes", "2-2", { size: 2 });
      await expect(slices.provision(lease, signal)).rejects.toMatchObject({ fault: { code: "already_exists" } });
      await played(slices.decommission(lease, signal));
      expect((await find(KINDS.namespace, taken))?.metadata?.deletionTimestamp).toBeUndefined();
      await expect(slices.provision(leaseOf("kubernetes", "2-3", { size: 19 }), signal)).rejects.toThrow("size");
    });

    it("zdb is a store with a disk and a secret, in the network of its user, and is removed with both", async () => {
      const namespace = buildNetworkNamespaceName("user", "net");
      const itsLabels = buildLeaseLabels(leaseOf("network", "3-2", { name: "net" }));
      await world.calls.create(KINDS.namespace, { metadata: { name: namespace, labels: itsLabels } });
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
      const resources = { cpu: "2", memory: String(2 ** 29), "ephemeral-storage": String(2 ** 28) };
      expect(container).toMatchObject({
        image: "zdb:1",
        command: ["zdb", "--mode", "$(ZDB_MODE)"],
        resources: { requests: resources, limits: resources },
      });
      expect(JSON.stringify(container)).not.toContain("hush");
      expect(await played(stores.provision(lease, signal))).toBe(result);
      expect((await find(KINDS.statefulSet, ...place))?.metadata?.uid).toBe(set?.metadata?.uid);

      await played(stores.decommission(lease, signal));
      for (const kind of [KINDS.statefulSet, KINDS.service, KINDS.secret, KINDS.volumeClaim, KINDS.pod])
        expect((await world.cluster.objects.list<V1Pod>(lease, kind, namespace, signal)).length).toBe(0);
      await played(stores.decommission(lease, signal));
    });

    it("zdb waits for a store that does not start, with the reason, and runs the image of the engine", async () => {
      const lease = leaseOf("zdb", "4-1", { size: 1, mode: "user", disk_type: "hdd" });
      await expect(makeZdbWorkload(world.impatient).provision(lease, signal)).rejects.toMatchObject({
        fault: { code: "deadline_exceeded", operation: expect.stringContaining("the start of the store") as unknown },
      });
      await played(stores.decommission(lease, signal));
      const none = makeZdbWorkload({ ...world.cluster, zdb: undefined });
      for (const asked of [none.provision, none.preflight])
        await expect(asked?.(lease, signal)).rejects.toMatchObject({
          fault: {
            code: "invalid_request",
            reason: expect.stringMatching(/not served.*PROVISION_ZDB_IMAGE is not set/) as unknown,
          },
        });
      await stores.preflight?.(lease, signal);
      await played(none.decommission(lease, signal));
    });

    it("zdb is not ended by pods of others that carry its labels", async () => {
      const { cluster, calls, isReal } = world;
      const lease = leaseOf("zdb", "6-1", { size: 1, mode: "user", disk_type: "hdd" });
      await calls.create(KINDS.namespace, { metadata: { name: "others" } });
      const containerStatuses = [{ name: "main", image: "i", imageID: "", ready: false, restartCount: 4 }];
      const body = { status: { phase: "Running", containerStatuses } };
      // The pod of the slice is last in the list.
      for (const namespace of ["others", "default"]) {
        const account = { metadata: { name: "default" } };
        if (isReal) await calls.create({ ...KINDS.serviceAccount, namespace }, account);
        const { metadata, spec } = podOf("crashing", "1");
        const pod = { metadata: { ...metadata, labels: buildLeaseLabels(lease) }, spec } as KubeObject;
        await calls.create({ ...KINDS.pod, namespace }, pod);
        await calls.patch({ ...KINDS.pod, namespace }, "crashing", { kind: "merge", body }, { subresource: "status" });
      }
      const seen = () => cluster.crashes.exitsOf(lease);
      await until("its pod is seen", () => seen().some(({ exits }) => exits === 4), LONG);
      expect(seen()).toHaveLength(1);
    });

    it("kubernetes or zdb is served by an engine that shows its secrets only to its user", async () => {
      await using engines = await openEngineWorld();
      const { leases } = engines;
      await engines.startEngine({
        MUSTER_KUBECONFIG: world.kubeconfig,
        PROVISION_ZDB_IMAGE: "zdb:1",
        MUSTER_LOG_LEVEL: "debug",
      });
      await waitUntilReady(engines);
      const heard = hear(engines);
      const user = makeUser();
      const reaches = (id: string, wanted: string) =>
        until(
          `${id} is ${wanted}`,
          async () => {
            await world.play();
            return (await readPhase(engines, id)) === wanted;
          },
          LONG,
        );
      const store = { size: 1, mode: "seq", disk_type: "hdd", password: "very-secret" };
      const orders = { "5-1": ["kubernetes", { size: 18 }], "5-2": ["zdb", store] } as const;
      for (const [id, [type, data]] of Object.entries(orders)) {
        await sendOrder(engines, signOrder(user, { id, type, data: JSON.stringify(data) }));
        await reaches(id, "ACTIVE");
      }
      const { dataJson } = (await leases.getLease({ id: "5-1" })).lease?.record?.result ?? {};
      const { kubeconfig } = read(new TextDecoder().decode(dataJson));
      const place = { kind: "result", id: "5-1", user: user.userId, field: "kubeconfig" } as const;
      const { users } = read(openText(user, String(kubeconfig), place)) as {
        readonly users: readonly { readonly user: { readonly token: string } }[];
      };
      const token = users[0]?.user.token ?? "";
      expect(token.length).toBeGreaterThan(100);
      for (const id of Object.keys(orders)) {
        await leases.endLease({ requestId: id, end: signEnd(user, id) });
        await reaches(id, "ENDED");
      }
      expect(await find(KINDS.namespace, buildSliceNamespaceName("5-1"))).toBeUndefined();
      expect(await find(KINDS.statefulSet, "lease-5-2", "default")).toBeUndefined();
      for (const id of Object.keys(orders)) await listHistory(engines, id);
      await engines.bus.connection.flush();
      const reported = [...engines.logLines, ...heard.map(({ text }) => text)];
      expect(reported.filter((text) => text.includes(token) || text.includes("very-secret"))).toEqual([]);
      for (const start of ["$KV.muster-leases.", "muster.audit.lease.", "muster.evt.lease."])
        expect(heard.some(({ subject }) => subject.startsWith(start))).toBe(true);
    });

    it("zdb is not stored with a plain password, not even as a dead letter", async () => {
      await using engines = await openEngineWorld();
      await engines.startEngine({ MUSTER_LOG_LEVEL: "debug" });
      await waitUntilReady(engines);
      const heard = hear(engines);
      const data = JSON.stringify({ size: 1, mode: "seq", disk_type: "hdd", password: "very-secret" });
      const [asked, streamed] = ["6-1", "6-2"].map((id) => signUnchanged(makeUser(), { id, type: "zdb", data }));
      if (asked === undefined || streamed === undefined) throw new Error("there are two");
      await expect(sendOrder(engines, asked)).rejects.toMatchObject({ fault: { field: "data.password" } });
      const { Order } = muster.provision.v1;
      await publishEvent(engines.bus, subjects.orderLease("main", "6-2"), Order, toWireOrder(streamed), {
        messageId: "6-2",
      });
      const letters = () => heard.filter(({ subject }) => subject === subjects.dead("lease"));
      await until("it is a dead letter", () => letters().length === 1, LONG);
      expect(letters()[0]?.text).toContain("data.password: is not sealed to this engine");
      const isSent = (subject: string) => subject.startsWith("muster.cmd.") || subject.startsWith("muster.req.");
      const reported = heard.flatMap(({ subject, text }) => (isSent(subject) ? [] : [text]));
      expect([...engines.logLines, ...reported].filter((text) => text.includes("very-secret"))).toEqual([]);
    });
  });
});
