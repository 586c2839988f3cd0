import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { makeKubeCalls, loadKube, type KubeCalls, type KubeObject } from "@muster/kube";
import type { ServiceName } from "@muster/repo/services";
import { startKubeApiServer, findKubeAssets, until } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { applyAll, readManifests } from "../src/manifests.ts";
import { grantAccess } from "../src/cluster-access.ts";

const assets = findKubeAssets();
const HERE = assets.found ? "a real kube-apiserver" : `a real kube-apiserver (skipped: ${assets.reason})`;

const VERBS = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];
/** Resources with their API group after the dot. The others are in no role of Muster, or are checked below. */
const RESOURCES = [
  "pods",
  "pods/log",
  "pods/exec",
  "pods/eviction",
  "pods/binding",
  "pods/status",
  "services",
  "secrets",
  "configmaps",
  "serviceaccounts",
  "serviceaccounts/token",
  "persistentvolumeclaims",
  "events",
  "limitranges",
  "runtimeclasses.node.k8s.io",
  "nodes",
  "nodes/status",
  "namespaces",
  "deployments.apps",
  "statefulsets.apps",
  "daemonsets.apps",
  "networkpolicies.networking.k8s.io",
  "poddisruptionbudgets.policy",
  "leases.coordination.k8s.io",
  "jobs.muster.dev",
  "jobs/status.muster.dev",
  "jobs/finalizers.muster.dev",
  "queues.muster.dev",
  "queues/status.muster.dev",
  "roles.rbac.authorization.k8s.io",
  "rolebindings.rbac.authorization.k8s.io",
  "clusterroles.rbac.authorization.k8s.io",
  "clusterrolebindings.rbac.authorization.k8s.io",
  "customresourcedefinitions.apiextensions.k8s.io",
  "validatingwebhookconfigurations.admissionregistration.k8s.io",
  "tokenreviews.authentication.k8s.io",
  "subjectaccessreviews.authorization.k8s.io",
];
/** The namespace of sessions and jobs, the namespace of the services, and others. */
const NAMESPACES = ["default", "muster-system", "kube-system"];

const KUBE_NAMESPACES = { apiVersion: "v1", plural: "namespaces" };

type Matrix = Readonly<Record<string, string>>;

/** The exact rights of each account; `everywhere` stands for all namespaces. */
const MAY: Readonly<Record<ServiceName, Matrix>> = {
  watcher: { "pods everywhere": "list watch", "nodes everywhere": "list watch" },
  "reservation-manager": {},
  "session-controller": {
    "pods default": "get list create patch delete",
    "pods/log default": "get",
    "limitranges default": "list watch",
    "runtimeclasses.node.k8s.io everywhere": "list watch",
    "namespaces everywhere": "list watch",
    "nodes everywhere": "get",
    "queues.muster.dev everywhere": "list",
  },
  "job-controller": {
    "pods default": "get list watch create patch delete",
    "pods/log default": "get",
    "services default": "get list watch create patch delete",
    "poddisruptionbudgets.policy default": "get list watch create patch delete",
    "events default": "list create patch",
    "limitranges default": "list watch",
    "runtimeclasses.node.k8s.io everywhere": "list watch",
    "jobs.muster.dev default": "get list watch create patch delete",
    "jobs/status.muster.dev default": "patch",
    "jobs/finalizers.muster.dev default": "update",
    "namespaces everywhere": "list watch",
    "queues.muster.dev everywhere": "get list watch patch",
    "queues/status.muster.dev everywhere": "patch",
  },
  "replication-farm": {
    "pods default": "get list watch create patch delete",
    "nodes everywhere": "get",
    // The labels of the namespace choose the queue of a replica set.
    "namespaces default": "get",
  },
  "node-scaler": {
    "pods everywhere": "list watch",
    "pods/eviction everywhere": "create",
    "nodes everywhere": "get list watch patch delete",
  },
  gateway: {
    "tokenreviews.authentication.k8s.io everywhere": "create",
    "subjectaccessreviews.authorization.k8s.io everywhere": "create",
  },
  // The service grants itself more rights in the namespace of a lease, with the only role that it may bind.
  "provision-engine": {
    "pods everywhere": "list watch",
    "namespaces everywhere": "get list create delete",
    "rolebindings.rbac.authorization.k8s.io everywhere": "create",
    "services default": "get list create delete",
    "secrets default": "get list create delete",
    "persistentvolumeclaims default": "get list create delete",
    "deployments.apps default": "get list create delete",
    "statefulsets.apps default": "get list create delete",
  },
};

/** Optional files of deploy/kubernetes, and the rights that they add. */
const MORE = [
  "mpijobs",
  "job-controller-elsewhere",
  "pod-groups",
  "batch-jobs",
  "slices",
  "node-scaler-cluster-api",
  "node-scaler-ec2",
  "node-scaler-karpenter",
];
const MORE_RESOURCES = [
  "pods",
  "events",
  "jobs.muster.dev",
  "jobs.batch",
  "jobs/status.batch",
  "jobsets.jobset.x-k8s.io",
  "priorityclasses.scheduling.k8s.io",
  "pods/exec",
  "configmaps",
  "serviceaccounts",
  "serviceaccounts/token",
  "limitranges",
  "resourcequotas",
  "ingresses.networking.k8s.io",
  "roles.rbac.authorization.k8s.io",
  "clusterroles.rbac.authorization.k8s.io",
  "podgroups.scheduling.x-k8s.io",
  "podgroups.scheduling.volcano.sh",
  "machinedeployments.cluster.x-k8s.io",
  "machines.cluster.x-k8s.io",
  "nodeclaims.karpenter.sh",
  "ec2nodeclasses.karpenter.k8s.aws",
  "customresourcedefinitions.apiextensions.k8s.io",
];
const MORE_NAMESPACES = [...NAMESPACES, "machines"];
const MAY_MORE = {
  "job-controller": {
    "pods default": "get list watch create patch delete",
    "events default": "list create patch",
    "limitranges everywhere": "list watch",
    "jobs.muster.dev default": "get list watch create patch delete",
    "jobs.batch everywhere": "get list watch patch",
    "jobs/status.batch everywhere": "patch",
    "jobsets.jobset.x-k8s.io everywhere": "get list watch patch",
    "priorityclasses.scheduling.k8s.io everywhere": "list watch",
    ...Object.fromEntries(
      ["muster-system", "kube-system", "machines"].flatMap((namespace) => [
        [`events ${namespace}`, "create patch"],
        [`pods ${namespace}`, "get list watch patch delete"],
        [`jobs.muster.dev ${namespace}`, "list"],
      ]),
    ),
    "pods/exec default": "create",
    "configmaps default": "get create",
    "serviceaccounts default": "get create",
    "roles.rbac.authorization.k8s.io default": "get create",
    "podgroups.scheduling.x-k8s.io default": "get list watch create patch delete",
    "podgroups.scheduling.volcano.sh default": "get list watch create patch delete",
  },
  "node-scaler": {
    "pods everywhere": "list watch",
    "machinedeployments.cluster.x-k8s.io machines": "get patch",
    "machines.cluster.x-k8s.io machines": "list patch",
    "nodeclaims.karpenter.sh everywhere": "get list create delete",
    "ec2nodeclasses.karpenter.k8s.aws everywhere": "get",
    "customresourcedefinitions.apiextensions.k8s.io everywhere": "get",
  },
  // A policy restricts it to slices.
  "provision-engine": { "pods everywhere": "list watch delete" },
} as const satisfies Partial<Record<ServiceName, Matrix>>;

/** Optional files with which the job-controller runs jobs in every namespace that a queue serves, and its rights with these and all of `MORE`. */
const JOB_NAMESPACES = ["job-namespaces", "job-namespaces-mpijobs", "job-namespaces-pod-groups"];
const MAY_IN_ALL_NAMESPACES: Matrix = {
  "pods everywhere": "get list watch create patch delete",
  "events everywhere": "list create patch",
  "jobs.muster.dev everywhere": "get list watch create patch delete",
  "jobs.batch everywhere": "get list watch patch",
  "jobs/status.batch everywhere": "patch",
  "jobsets.jobset.x-k8s.io everywhere": "get list watch patch",
  "priorityclasses.scheduling.k8s.io everywhere": "list watch",
  "pods/exec everywhere": "create",
  "configmaps everywhere": "get create",
  "serviceaccounts everywhere": "get create",
  "limitranges everywhere": "list watch",
  "roles.rbac.authorization.k8s.io everywhere": "get create",
  "podgroups.scheduling.x-k8s.io everywhere": "get list watch create patch delete",
  "podgroups.scheduling.volcano.sh everywhere": "get list watch create patch delete",
};

describe.skipIf(!assets.found)(`the rights of each account of deploy/kubernetes, on ${HERE}`, () => {
  const stack = new AsyncDisposableStack();
  let calls: KubeCalls;

  beforeAll(async () => {
    const directory = await mkdtemp(join(tmpdir(), "muster-rights-"));
    stack.defer(() => rm(directory, { recursive: true, force: true }));
    const server = stack.use(await startKubeApiServer());
    await grantAccess(server.kubeconfig, directory);
    calls = stack.use(makeKubeCalls(loadKube(server.kubeconfig)));
    // A role takes effect shortly after it is stored. The tests report a right that never does.
    await until("all rights are in force", () => areInForce(calls), { timeoutMs: 60_000 }).catch(() => undefined);
  }, 120_000);
  afterAll(() => stack.disposeAsync());

  it.each(Object.entries(MAY))("%s: exactly the rights of the table", { timeout: 120_000 }, async (service, may) => {
    expect(await matrixOf(calls, service, RESOURCES)).toEqual(may);
  });

  it("an account without a role has none of these rights", { timeout: 120_000 }, async () => {
    expect(await matrixOf(calls, "default", RESOURCES)).toEqual({});
  });

  // The last two tests add rights, and the other tests check the accounts without them.
  it("the optional files add exactly their rights, and the provision-engine may bind only its own role and that of slices", async () => {
    await calls.create(KUBE_NAMESPACES, { metadata: { name: "machines" } });
    for (const file of MORE) await applyAll(calls, await readManifests(`deploy/kubernetes/${file}.yaml`));
    const bind = { group: "rbac.authorization.k8s.io", resource: "clusterroles", verb: "bind" };
    const mayBind = (name: string) => isAllowed(calls, "provision-engine", { ...bind, name });
    const matrices = async (): Promise<Readonly<Record<string, Matrix>>> => {
      const services = Object.keys(MAY_MORE);
      const all = services.map((service) => matrixOf(calls, service, MORE_RESOURCES, MORE_NAMESPACES));
      return Object.fromEntries((await Promise.all(all)).map((matrix, at) => [services[at] ?? "", matrix]));
    };
    await until("the last role is in force", () => mayBind("muster-lease"), { timeoutMs: 60_000 });
    await expectInForce(matrices, MAY_MORE);
    const secrets = { resource: "secrets", namespace: "kube-system" };
    for (const verb of VERBS)
      expect(await isAllowed(calls, "node-scaler", { ...secrets, verb })).toBe(verb === "create");
    expect(await mayBind("muster-lease-engine")).toBe(true);
    for (const name of ["cluster-admin", "admin", "muster-watcher"]) expect(await mayBind(name)).toBe(false);
  }, 240_000);

  it("the files for jobs of all namespaces give the job-controller in each of them the rights of its own", async () => {
    for (const file of JOB_NAMESPACES) await applyAll(calls, await readManifests(`deploy/kubernetes/${file}.yaml`));
    const matrix = (): Promise<Matrix> => matrixOf(calls, "job-controller", MORE_RESOURCES, MORE_NAMESPACES);
    await expectInForce(matrix, MAY_IN_ALL_NAMESPACES);
  }, 240_000);
});

/** Waits until the rights equal the expected ones, and reports those that never do. */
async function expectInForce(read: () => Promise<object>, expected: object): Promise<void> {
  await until("all roles are in force", async () => isDeepStrictEqual(await read(), expected), {
    timeoutMs: 60_000,
    everyMs: 500,
  }).catch(() => undefined);
  expect(await read()).toEqual(expected);
}

async function areInForce(calls: KubeCalls): Promise<boolean> {
  const seen = await Promise.all(
    Object.entries(MAY).flatMap(([account, may]) =>
      Object.entries(may).map(async ([row, verbs]) => {
        const [resource = "", where = ""] = row.split(" ");
        return (await verbsOn(calls, account, resource, where === "everywhere" ? "default" : where)) === verbs;
      }),
    ),
  );
  return seen.every(Boolean);
}

/** The allowed verbs on every resource in every namespace, by `<resource> <namespace>`. */
async function matrixOf(
  calls: KubeCalls,
  account: string,
  resources: readonly string[],
  namespaces = NAMESPACES,
): Promise<Matrix> {
  const rows = await Promise.all(
    resources.map(async (text) => {
      const found = await Promise.all(namespaces.map((namespace) => verbsOn(calls, account, text, namespace)));
      const [first = ""] = found;
      if (found.every((verbs) => verbs === first)) return [[`${text} everywhere`, first]];
      return namespaces.map((namespace, index) => [`${text} ${namespace}`, found[index] ?? ""]);
    }),
  );
  return Object.fromEntries(rows.flat().filter(([, verbs]) => verbs !== "")) as Matrix;
}

async function verbsOn(calls: KubeCalls, account: string, text: string, namespace: string): Promise<string> {
  const [full = "", ...group] = text.split(".");
  const [resource = "", subresource = ""] = full.split("/");
  const access = { group: group.join("."), resource, subresource, namespace };
  const allowed = await Promise.all(VERBS.map((verb) => isAllowed(calls, account, { ...access, verb })));
  return VERBS.filter((_verb, index) => allowed[index] === true).join(" ");
}

type Attributes = Readonly<Record<string, string>>;
type Review = KubeObject & { readonly spec: object; readonly status?: { readonly allowed: boolean } };

async function isAllowed(calls: KubeCalls, account: string, resourceAttributes: Attributes): Promise<boolean> {
  const review: Review = {
    apiVersion: "authorization.k8s.io/v1",
    kind: "SubjectAccessReview",
    metadata: {},
    spec: {
      user: `system:serviceaccount:muster-system:${account}`,
      groups: ["system:serviceaccounts", "system:serviceaccounts:muster-system", "system:authenticated"],
      resourceAttributes,
    },
  };
  const made = await calls.create({ apiVersion: review.apiVersion ?? "", plural: "subjectaccessreviews" }, review);
  return made.status?.allowed === true;
}
