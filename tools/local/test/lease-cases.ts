import type { V1Namespace, V1NetworkPolicy, V1Node, V1PersistentVolumeClaim, V1Pod } from "@kubernetes/client-node";
import { toKubeFault, type KubeObject } from "@muster/kube";
import type { LeaseType } from "@muster/leases/data";
import { until } from "@muster/testkit";
import { expect } from "vitest";
import { askProgram, CONTAINER, CONTAINER_GREETING, CONTAINER_PORT, FOR_EVER } from "./lease-programs.ts";
import { holders, PATIENCE, type ActiveLease, type LeaseWorld } from "./active-lease.ts";

export const LEASE_IMAGE = "node:24-bookworm-slim";
const NETWORK = "home";
const PASSWORD = "hidden";
const EPHEMERAL = "ephemeral-storage";
const BYTES_PER_GIB = 2 ** 30;

export type LeaseCase = {
  readonly data: (world: LeaseWorld, idOf: (type: LeaseType) => string) => object;
  /** Checks the objects of the lease while it is active. */
  readonly expectActive: (lease: ActiveLease) => Promise<void>;
};

const pods = (namespace: string) => ({ apiVersion: "v1", plural: "pods", namespace });

async function expectClaim({ calls, world }: ActiveLease, { namespace, name }: Record<"namespace" | "name", string>) {
  const claims = { apiVersion: "v1", plural: "persistentvolumeclaims", namespace };
  const { status } = await calls.get<V1PersistentVolumeClaim>(claims, name);
  expect(status?.phase).toBe(world.isRealCluster ? "Bound" : "Pending");
}

/** One lease of each type, in lease order. The document that orders the network and the volume also orders their users. */
export const LEASE_CASES: Readonly<Record<LeaseType, LeaseCase>> = {
  network: {
    data: () => ({ name: NETWORK, open_ports: [CONTAINER_PORT] }),
    expectActive: async ({ calls, result }) => {
      const namespace = String(result["namespace"]);
      const { metadata } = await calls.get<V1Namespace>({ apiVersion: "v1", plural: "namespaces" }, namespace);
      expect(metadata?.labels).toMatchObject({ "pod-security.kubernetes.io/enforce": "baseline" });
      const policies = { apiVersion: "networking.k8s.io/v1", plural: "networkpolicies", namespace };
      const { items } = await calls.list<V1NetworkPolicy>(policies);
      expect(
        items.map(({ spec }) => spec?.ingress?.flatMap(({ ports = [] }) => ports.map(({ port }) => port))),
      ).toEqual([[CONTAINER_PORT, CONTAINER_PORT]]);
    },
  },
  volume: {
    data: () => ({ size: 1, type: "ssd", network: NETWORK }),
    expectActive: async (lease) => {
      const { id, result } = lease;
      expect(result).toMatchObject({ volume_id: id, claim: `lease-${id}` });
      await expectClaim(lease, { namespace: String(result["namespace"]), name: String(result["claim"]) });
    },
  },
  container: {
    data: ({ isRealCluster }, idOf) => ({
      image: LEASE_IMAGE,
      network: NETWORK,
      entrypoint: ["node", "--eval"],
      args: [CONTAINER],
      env: {
        GREETING: CONTAINER_GREETING,
        ...(isRealCluster && { DISK: "/leased", STORE: `lease-${idOf("zdb")}:9900` }),
      },
      secret_env: { TOKEN: PASSWORD },
      ports: [CONTAINER_PORT],
      mounts: [{ volume_id: idOf("volume"), mountpoint: "/leased" }],
      capacity: { cpu: 1, memory: 1024 },
    }),
    expectActive: async ({ output, result, world }) => {
      expect(result).toMatchObject({ ports: [CONTAINER_PORT], addresses: [expect.any(String)] });
      const { store, ...rest } = (await output()) as { readonly store: unknown };
      expect(rest).toEqual({ greeting: CONTAINER_GREETING, token: PASSWORD, starts: world.isRealCluster ? 1 : 0 });
      // The pod resolved the name of the store and authenticated with its password.
      if (world.isRealCluster) expect(store).toMatchObject({ mode: "seq" });
    },
  },
  zdb: {
    data: () => ({ size: 1, mode: "seq", disk_type: "hdd", password: PASSWORD, network: NETWORK }),
    expectActive: async (lease) => {
      const { id, result, output, world } = lease;
      const namespace = String(result["namespace"]);
      expect(result).toMatchObject({ host: `lease-${id}.${namespace}.svc`, port: 9900 });
      const starts = world.isRealCluster ? 1 : 0;
      expect(await output()).toEqual({ mode: "seq", isPublic: "false", bytes: BYTES_PER_GIB, starts });
      await expectClaim(lease, { namespace, name: `lease-${id}` });
    },
  },
  kubernetes: {
    data: () => ({ size: 18 }),
    expectActive: expectSlice,
  },
  machine: {
    data: ({ pool }) => ({ pool, machines: 1 }),
    expectActive: async ({ id, result, world }) => {
      expect(result).toMatchObject({ machines: [{ pool: world.pool, node: expect.any(String) as unknown }] });
      expect(await holders(world)).toContain(`lease/${id}-1`);
    },
  },
  debug: {
    data: () => ({ say: "hello" }),
    expectActive: ({ result }) => {
      expect(result).toEqual({ say: "hello" });
      return Promise.resolve();
    },
  },
};

/** The user can run a pod, cannot exceed the size of the slice, and cannot create anything elsewhere. */
async function expectSlice(lease: ActiveLease): Promise<void> {
  const { enter, id, result, resultOf, outputOf, secret, world } = lease;
  const podOf = await podMaker(lease);
  const namespace = `muster-lease-${id}`;
  expect(result).toMatchObject({ namespace });
  const user = await enter(await secret("kubeconfig"));
  const { host } = resultOf("container");
  const program = world.isRealCluster ? askProgram(`${String(host)}:${CONTAINER_PORT}`) : FOR_EVER;
  // The role binding takes effect, and the service account of pods exists, shortly after the namespace.
  await until("the user creates a pod", () => user.create(pods(namespace), podOf("first", "500m", program)), PATIENCE);
  await until(
    "the pod runs",
    async () => (await user.get<V1Pod>(pods(namespace), "first")).status?.phase === "Running",
    PATIENCE,
  );
  // The pod connects from another namespace to the port that the network policy opens.
  if (world.isRealCluster) expect(await outputOf({ namespace })).toBe(CONTAINER_GREETING);
  const refused = (where: string, cpu: string) => refusalOf(user.create(pods(where), podOf("second", cpu, FOR_EVER)));
  expect(await refused(namespace, "600m")).toContain("exceeded quota: muster-lease");
  const { namespace: neighbour } = resultOf("network");
  for (const where of ["default", String(neighbour)]) expect(await refused(where, "100m")).toContain("forbidden");
  expect(await refusalOf(user.list({ apiVersion: "v1", plural: "namespaces" }))).toContain("forbidden");
  const quotas = { apiVersion: "v1", plural: "resourcequotas", namespace };
  expect(await refusalOf(user.delete(quotas, "muster-lease"))).toContain("forbidden");
}

/** Creates pods for the slice. If a node reports no ephemeral storage, they request 0 of it, because no other amount fits. */
async function podMaker({
  calls,
  world,
}: ActiveLease): Promise<(name: string, cpu: string, program: string) => KubeObject> {
  const { items } = await calls.list<V1Node & KubeObject>({ apiVersion: "v1", plural: "nodes" });
  const isCounted = items.every(({ status }) => status?.allocatable?.[EPHEMERAL] !== undefined);
  return (name, cpu, program) => {
    const resources = { limits: { cpu, memory: "128Mi", ...(!isCounted && { [EPHEMERAL]: "0" }) } };
    const command = ["node", "--eval", program];
    const container = { name: "main", image: LEASE_IMAGE, imagePullPolicy: "IfNotPresent", command, resources };
    const nodeSelector = world.slicePool === undefined ? {} : { pool: world.slicePool };
    const spec = { terminationGracePeriodSeconds: 2, nodeSelector, containers: [container] };
    return { metadata: { name }, spec } as KubeObject;
  };
}

async function refusalOf(call: Promise<unknown>): Promise<string> {
  try {
    await call;
    return "not refused";
  } catch (error) {
    const fault = toKubeFault(error);
    return fault?.code === "invalid_request" ? fault.reason : String(error);
  }
}
