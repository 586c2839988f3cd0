import { mkdtempDisposable, readFile, writeFile } from "node:fs/promises";
import { loadAllYaml } from "@kubernetes/client-node";
import { makeKubeCalls, loadKube, unlessFault, type KubeCalls, type KubeObject } from "@muster/kube";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openCluster, type Cluster, makeRequestAccess } from "../src/adapters/cluster.ts";
import { makeLeaseObjects } from "../src/adapters/lease-objects.ts";
import { KINDS } from "../src/types/object-kinds.ts";
import { buildKubeconfig } from "../src/types/kubernetes.ts";
import type { API_SERVERS } from "./api-servers.ts";

const MANIFESTS = ["provision-engine.yaml", "slices.yaml"].map(
  (file) => new URL(`../../../deploy/kubernetes/${file}`, import.meta.url),
);
const ENGINE = { name: "provision-engine", namespace: "muster-system" };
const ADMISSION = { apiVersion: "admissionregistration.k8s.io/v1" };
const RBAC = { apiVersion: "rbac.authorization.k8s.io/v1" };
const PLURALS: Readonly<Record<string, { readonly apiVersion: string; readonly plural: string }>> = {
  ServiceAccount: { apiVersion: "v1", plural: "serviceaccounts" },
  Role: { ...RBAC, plural: "roles" },
  RoleBinding: { ...RBAC, plural: "rolebindings" },
  ClusterRole: { ...RBAC, plural: "clusterroles" },
  ClusterRoleBinding: { ...RBAC, plural: "clusterrolebindings" },
};
/** Features that the embedded server lacks. */
const REAL_PLURALS: typeof PLURALS = {
  ValidatingAdmissionPolicy: { ...ADMISSION, plural: "validatingadmissionpolicies" },
  ValidatingAdmissionPolicyBinding: { ...ADMISSION, plural: "validatingadmissionpolicybindings" },
};
const FIRST_PATIENCE = { firstMs: 10, maxMs: 100, totalMs: 60_000 };
const NO_PATIENCE = { ...FIRST_PATIENCE, totalMs: 0 };

/** A cluster without nodes and, on a real server, without controllers: the test plays them. */
export type SliceWorld = AsyncDisposable & {
  /** The engine's access, with exactly the rights of deploy/kubernetes. */
  readonly cluster: Cluster;
  /** The same, without waiting. */
  readonly impatient: Cluster;
  /** Kubeconfig of the engine. */
  readonly kubeconfig: string;
  /** Kubeconfig with all rights. */
  readonly adminKubeconfig: string;
  /** With all rights. */
  readonly calls: KubeCalls;
  readonly isReal: boolean;
  /** Does the work of controllers once: counts quotas, starts stores, removes finalizers of deleted objects. */
  play(): Promise<void>;
  /** Calls by a kubeconfig. */
  enter(kubeconfig: string): Promise<KubeCalls>;
};

export async function sliceWorld({ start, isReal }: (typeof API_SERVERS)[number]): Promise<SliceWorld> {
  await using starting = new AsyncDisposableStack();
  const directory = starting.use(await mkdtempDisposable(join(tmpdir(), "muster-slices-"))).path;
  const server = starting.use(await start());
  const admin = loadKube(server.kubeconfig);
  const calls = starting.use(makeKubeCalls(admin));
  await grantRights(calls, isReal ? { ...PLURALS, ...REAL_PLURALS } : PLURALS);
  const engineAccess = await makeRequestAccess(admin, calls, undefined)(ENGINE, 3600, AbortSignal.timeout(60_000));
  const kubeconfig = join(directory, "engine.kubeconfig");
  await writeFile(kubeconfig, buildKubeconfig({ ...engineAccess, namespace: ENGINE.namespace }));
  const configuration = {
    namespace: "default",
    storageClasses: { ssd: "fast", hdd: undefined },
    slices: { role: "muster-lease", url: undefined },
    nodes: { poolLabel: "pool", pools: [] },
    zdb: {
      image: "zdb:1",
      port: 9900,
      command: ["zdb", "--mode", "$(ZDB_MODE)"],
      cpus: 2,
      memoryBytes: 2 ** 29,
      diskBytes: 2 ** 28,
    },
  };
  const cluster = starting.use(
    openCluster(loadKube(kubeconfig), { ...configuration, installation: "muster-1" }, () => undefined),
  );
  let entered = 0;
  const all = starting.move();
  return {
    cluster: { ...cluster, objects: makeLeaseObjects(cluster.calls, "muster-1", FIRST_PATIENCE) },
    impatient: { ...cluster, objects: makeLeaseObjects(cluster.calls, "muster-1", NO_PATIENCE) },
    kubeconfig,
    adminKubeconfig: server.kubeconfig,
    calls,
    isReal,
    play: () => (isReal ? playControllers(calls) : startPods(calls)),
    enter: async (text) => {
      const file = join(directory, `${++entered}.kubeconfig`);
      await writeFile(file, text, { mode: 0o600 });
      return all.use(makeKubeCalls(loadKube(file)));
    },
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

async function grantRights(calls: KubeCalls, plurals: typeof PLURALS): Promise<void> {
  await calls.create<KubeObject>(KINDS.namespace, { metadata: { name: ENGINE.namespace } });
  const texts = await Promise.all(MANIFESTS.map((file) => readFile(file, "utf8")));
  for (const object of texts.flatMap((text) => loadAllYaml(text) as KubeObject[])) {
    const resource = plurals[object.kind ?? ""];
    if (resource === undefined) continue;
    const { namespace } = object.metadata ?? {};
    await calls.create(namespace === undefined ? resource : { ...resource, namespace }, object);
  }
}

const STATUS = { subresource: "status" };
type Written = KubeObject & { readonly spec?: { readonly hard?: object }; readonly status?: object };

/** Overwritten or removed by another writer in the meantime: the next time succeeds. */
function unlessOvertaken(write: Promise<unknown>): Promise<unknown> {
  return unlessFault(write, "not_found", "conflict");
}

async function startPods(calls: KubeCalls): Promise<void> {
  const { items } = await calls.list<KubeObject>(KINDS.pod);
  const conditions = [{ type: "Ready", status: "True", lastTransitionTime: new Date().toISOString() }];
  const body = { status: { phase: "Running", conditions } };
  for (const { metadata } of items)
    await unlessOvertaken(
      calls.patch({ ...KINDS.pod, ...placeOf(metadata) }, metadata?.name ?? "", { kind: "merge", body }, STATUS),
    );
}

async function playControllers(calls: KubeCalls): Promise<void> {
  const each = async (
    kind: (typeof KINDS)[keyof typeof KINDS],
    act: (found: Written, at: Place) => Promise<unknown>,
  ) => {
    for (const found of (await calls.list<Written>(kind)).items)
      await unlessOvertaken(act(found, { ...kind, ...placeOf(found.metadata) }));
  };
  const patch = (at: Place, { metadata }: Written, body: object, options = {}) =>
    calls.patch(at, metadata?.name ?? "", { kind: "merge", body }, options);
  await each(KINDS.resourceQuota, async (found, at) => {
    const { hard = {} } = found.spec ?? {};
    if ("hard" in (found.status ?? {})) return;
    const used = Object.fromEntries(Object.keys(hard).map((name) => [name, "0"]));
    await patch(at, found, { status: { hard, used } }, STATUS);
  });
  await each(KINDS.statefulSet, (found, at) => patch(at, found, { status: { replicas: 1, readyReplicas: 1 } }, STATUS));
  for (const kind of [KINDS.statefulSet, KINDS.volumeClaim])
    await each(kind, async (found, at) => {
      if (found.metadata?.deletionTimestamp !== undefined) await patch(at, found, { metadata: { finalizers: null } });
    });
  await each(KINDS.namespace, async (found, at) => {
    if (found.metadata?.deletionTimestamp === undefined) return;
    await calls.replace(at, { ...found, spec: { finalizers: [] } } as Written, { subresource: "finalize" });
  });
}

type Place = { readonly apiVersion: string; readonly plural: string; readonly namespace?: string };

function placeOf(metadata: KubeObject["metadata"]): { readonly namespace?: string } {
  return metadata?.namespace === undefined ? {} : { namespace: metadata.namespace };
}
