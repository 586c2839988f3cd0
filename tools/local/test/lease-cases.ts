import type { V1Namespace, V1NetworkPolicy, V1Node, V1PersistentVolumeClaim, V1Pod } from "@kubernetes/client-node";
import { kubeFault, type KubeObject } from "@muster/kube";
import type { LeaseType } from "@muster/leases/data";
import { until } from "@muster/testkit";
import { expect } from "vitest";
import { askProgram, CONTAINER, CONTAINER_GREETING, CONTAINER_PORT, FOR_EVER } from "./lease-programs.ts";
import { holders, PATIENCE, type LeaseSight, type LeaseWorld } from "./lease-sight.ts";

export const LEASE_IMAGE = "node:24-bookworm-slim";
const NETWORK = "home";
const PASSWORD = "hidden";
const EPHEMERAL = "ephemeral-storage";
const BYTES_PER_GIB = 2 ** 30;

export type LeaseCase = {
  readonly data: (world: LeaseWorld, idOf: (type: LeaseType) => string) => object;
  /** Looks at what is there of the lease while it is active. */
  readonly expectThere: (sight: LeaseSight) => Promise<void>;
};

const pods = (namespace: string) => ({ apiVersion: "v1", plural: "pods", namespace });

async function expectClaim({ calls, world }: LeaseSight, { namespace, name }: Record<"namespace" | "name", string>) {
  const claims = { apiVersion: "v1", plural: "persistentvolumeclaims", namespace };
  const { status } = await calls.get<V1PersistentVolumeClaim>(claims, name);
  expect(status?.phase).toBe(world.isWhole ? "Bound" : "Pending");
}

/** One of each type, in the order in which they are ordered. What lives in the network and mounts the volume is ordered together with them. */
export const LEASE_CASES: Readonly<Record<LeaseType, LeaseCase>> = {
  network: {
    data: () => ({ name: NETWORK, open_ports: [CONTAINER_PORT] }),
    expectThere: async ({ calls, result }) => {
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
    expectThere: async (sight) => {
      const { id, result } = sight;
      expect(result).toMatchObject({ volume_id: id, claim: `lease-${id}` });
      await expectClaim(sight, { namespace: String(result["namespace"]), name: String(result["claim"]) });
    },
  },
  container: {
    data: ({ isWhole }, idOf) => ({
      image: LEASE_IMAGE,
      network: NETWORK,
      entrypoint: ["node", "--eval"],
      args: [CONTAINER],
      env: {
        GREETING: CONTAINER_GREETING,
        ...(isWhole && { DISK: "/leased", STORE: `lease-${idOf("zdb")}:9900` }),
      },
      secret_env: { TOKEN: PASSWORD },
      ports: [CONTAINER_PORT],
      mounts: [{ volume_id: idOf("volume"), mountpoint: "/leased" }],
      capacity: { cpu: 1, memory: 1024 },
    }),
    expectThere: async ({ said, result, world }) => {
      expect(result).toMatchObject({ ports: [CONTAINER_PORT], addresses: [expect.any(String)] });
      const { store, ...rest } = (await said()) as { readonly store: unknown };
      expect(rest).toEqual({ greeting: CONTAINER_GREETING, token: PASSWORD, starts: world.isWhole ? 1 : 0 });
      // It has found the store by its name, and had its password.
      if (world.isWhole) expect(store).toMatchObject({ mode: "seq" });
    },
  },
  zdb: {
    data: () => ({ size: 1, mode: "seq", disk_type: "hdd", password: PASSWORD, network: NETWORK }),
    expectThere: async (sight) => {
      const { id, result, said, world } = sight;
      const namespace = String(result["namespace"]);
      expect(result).toMatchObject({ host: `lease-${id}.${namespace}.svc`, port: 9900 });
      const starts = world.isWhole ? 1 : 0;
      expect(await said()).toEqual({ mode: "seq", isPublic: "false", bytes: BYTES_PER_GIB, starts });
      await expectClaim(sight, { namespace, name: `lease-${id}` });
    },
  },
  kubernetes: {
    data: () => ({ size: 18 }),
    expectThere: expectSlice,
  },
  machine: {
    data: ({ pool }) => ({ pool, machines: 1 }),
    expectThere: async ({ id, result, world }) => {
      expect(result).toMatchObject({ machines: [{ pool: world.pool, node: expect.any(String) as unknown }] });
      expect(await holders(world)).toContain(`lease/${id}-1`);
    },
  },
  debug: {
    data: () => ({ say: "hello" }),
    expectThere: ({ result }) => {
      expect(result).toEqual({ say: "hello" });
      return Promise.resolve();
    },
  },
};

/** Its user makes a pod that runs, and then no more than its size has, and nothing elsewhere. */
async function expectSlice(sight: LeaseSight): Promise<void> {
  const { enter, id, result, resultOf, saidBy, secret, world } = sight;
  const podOf = await podMaker(sight);
  const namespace = `muster-lease-${id}`;
  expect(result).toMatchObject({ namespace });
  const user = await enter(await secret("kubeconfig"));
  const { host } = resultOf("container");
  const program = world.isWhole ? askProgram(`${String(host)}:${CONTAINER_PORT}`) : FOR_EVER;
  // A binding counts, and the account of pods is there, a moment after the namespace.
  await until("its user makes a pod", () => user.create(pods(namespace), podOf("first", "500m", program)), PATIENCE);
  await until(
    "it runs",
    async () => (await user.get<V1Pod>(pods(namespace), "first")).status?.phase === "Running",
    PATIENCE,
  );
  // From another namespace, by the port that the network leaves open.
  if (world.isWhole) expect(await saidBy({ namespace })).toBe(CONTAINER_GREETING);
  const refused = (where: string, cpu: string) => refusalOf(user.create(pods(where), podOf("second", cpu, FOR_EVER)));
  expect(await refused(namespace, "600m")).toContain("exceeded quota: muster-lease");
  const { namespace: neighbour } = resultOf("network");
  for (const where of ["default", String(neighbour)]) expect(await refused(where, "100m")).toContain("forbidden");
  expect(await refusalOf(user.list({ apiVersion: "v1", plural: "namespaces" }))).toContain("forbidden");
  const quotas = { apiVersion: "v1", plural: "resourcequotas", namespace };
  expect(await refusalOf(user.delete(quotas, "muster-lease"))).toContain("forbidden");
}

/** Pods that say what they take of root file systems only where they have to say that it is nothing, for no node with a number for it would be found. */
async function podMaker({ calls }: LeaseSight): Promise<(name: string, cpu: string, program: string) => KubeObject> {
  const { items } = await calls.list<V1Node & KubeObject>({ apiVersion: "v1", plural: "nodes" });
  const isCounted = items.every(({ status }) => status?.allocatable?.[EPHEMERAL] !== undefined);
  return (name, cpu, program) => {
    const resources = { limits: { cpu, memory: "128Mi", ...(!isCounted && { [EPHEMERAL]: "0" }) } };
    const command = ["node", "--eval", program];
    const container = { name: "main", image: LEASE_IMAGE, imagePullPolicy: "IfNotPresent", command, resources };
    return { metadata: { name }, spec: { terminationGracePeriodSeconds: 2, containers: [container] } } as KubeObject;
  };
}

async function refusalOf(call: Promise<unknown>): Promise<string> {
  try {
    await call;
    return "it was done";
  } catch (error) {
    const fault = kubeFault(error);
    return fault?.code === "invalid_request" ? fault.reason : String(error);
  }
}
