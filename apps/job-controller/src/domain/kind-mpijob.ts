import type { Container, JobSpec, ReplicaSpec } from "./job.ts";
import {
  type ClusterDescription,
  type CompanionObject,
  type JobIdentity,
  type Kind,
  type KindDefaults,
  NO_DESCRIPTION,
} from "./kind.ts";
import { KUBEFLOW_LABEL_KEYS, makeKubeflowKind, findReplica } from "./kubeflow.ts";
import { buildMemberName } from "./member-names.ts";
import { type Fields, NOT_NEGATIVE } from "./read-fields.ts";
import type { ReplicaDraft } from "./read-manifest.ts";
import { findContainer } from "./read-template.ts";

const CONFIG_FOLDER = "/etc/mpi";
const KUBECTL_FOLDER = "/opt/kube";
const CONFIG_VOLUME = "mpi-job-config";
const KUBECTL_VOLUME = "mpi-job-kubectl";

/**
 * The launcher starts mpirun, which starts its processes in the workers through `kubectl exec` instead of ssh. Two properties differ from the training
 * operator. The launcher is created after all workers are ready, so no init container waits for them. And discover_hosts.sh lists the running workers at each
 * call, so its text never changes. An init container only delivers kubectl; without a configured image for it, the job's image must contain kubectl. The
 * hostfile and the rights of the launcher are those of the workers at the creation of the job.
 */
export const MPIJOB_KIND: Kind = makeKubeflowKind({
  kind: "MPIJob",
  plural: "mpijobs",
  replicaSpecs: "mpiReplicaSpecs",
  types: [
    { name: "Launcher", replicasDefault: 1, single: true },
    { name: "Worker", replicasDefault: 0, single: false },
  ],
  restartPolicyDefault: "Never",
  container: { name: "mpi", required: false },
  port: undefined,
  finish: (spec, drafts) => {
    if (!drafts.some(({ type, replicas }) => type === "launcher" && replicas === 1))
      spec.refuse("mpiReplicaSpecs", "needs a Launcher with one replica");
    const slots = spec.integer("slotsPerWorker", NOT_NEGATIVE) ?? 1;
    return {
      drafts: drafts.map((draft) => withOrder(withContainer(draft, spec), drafts)),
      success: [[{ type: "launcher", indexes: "all" }]],
      settings: { slotsPerWorker: String(slots) },
    };
  },
  describeCluster: (job, member, spec, defaults) =>
    member.type === "launcher" ? describeLauncher(job, spec, defaults) : describeWorker(job, spec),
  companions: (job, spec) => [configMap(job, spec), ...identity(job, spec)],
});

function withContainer(draft: ReplicaDraft, spec: Fields): ReplicaDraft {
  const name = spec.text("mainContainer");
  if (name === undefined || draft.template === undefined) return draft;
  if (findContainer(draft.template, name) !== undefined) return { ...draft, mainContainer: name };
  spec.refuse("mainContainer", `"${name}" is no container of the ${draft.type}`);
  return draft;
}

function withOrder(draft: ReplicaDraft, drafts: readonly ReplicaDraft[]): ReplicaDraft {
  const workers = drafts.some(({ type, replicas }) => type === "worker" && replicas > 0);
  return draft.type === "launcher" && workers ? { ...draft, dependsOn: [{ type: "worker", status: "Ready" }] } : draft;
}

function describeLauncher(job: JobIdentity, spec: JobSpec, { images }: KindDefaults): ClusterDescription {
  const launcher = findReplica(spec, "launcher");
  const config = { name: CONFIG_VOLUME, mountPath: CONFIG_FOLDER };
  const kubectl = { name: KUBECTL_VOLUME, mountPath: KUBECTL_FOLDER };
  const delivered = images.kubectlDelivery !== undefined;
  // Without these variables, a GPU runtime would give the launcher all GPUs of its machine.
  const noGpus = ["NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"].map((name) => ({ name, value: "" }));
  return {
    ...NO_DESCRIPTION,
    env: [
      { name: "OMPI_MCA_plm_rsh_agent", value: `${CONFIG_FOLDER}/kubexec.sh` },
      { name: "OMPI_MCA_orte_default_hostfile", value: `${CONFIG_FOLDER}/hostfile` },
      { name: "I_MPI_HYDRA_BOOTSTRAP", value: "rsh" },
      { name: "I_MPI_HYDRA_BOOTSTRAP_EXEC", value: `${CONFIG_FOLDER}/kubexec.sh` },
      ...(usesGpus(launcher) ? [] : noGpus),
    ],
    containers: launcher === undefined ? [] : [launcher.mainContainer],
    initContainers: delivered ? [kubectlDelivery(job, images.kubectlDelivery, [config, kubectl])] : [],
    volumes: [
      { name: CONFIG_VOLUME, configMap: { name: `${job.name}-config`, items: FILES } },
      ...(delivered ? [{ name: KUBECTL_VOLUME, emptyDir: {} }] : []),
    ],
    volumeMounts: [config, ...(delivered ? [kubectl] : [])],
    podDefaults: { serviceAccountName: `${job.name}-launcher` },
  };
}

const KUBEXEC = { key: "kubexec.sh", path: "kubexec.sh", mode: 0o555 };
const FILES = [
  { key: "hostfile", path: "hostfile", mode: 0o444 },
  KUBEXEC,
  { key: "discover_hosts.sh", path: "discover_hosts.sh", mode: 0o555 },
];

/** Workers wait for processes that the launcher starts in them. Open MPI expects its agent in all of them, though only the launcher runs it. */
function describeWorker(job: JobIdentity, spec: JobSpec): ClusterDescription {
  const worker = findReplica(spec, "worker");
  return {
    ...NO_DESCRIPTION,
    containers: worker === undefined ? [] : [worker.mainContainer],
    volumes: [{ name: CONFIG_VOLUME, configMap: { name: `${job.name}-config`, items: [KUBEXEC] } }],
    volumeMounts: [{ name: CONFIG_VOLUME, mountPath: CONFIG_FOLDER }],
    commandDefault: ["sleep", "365d"],
  };
}

function kubectlDelivery(job: JobIdentity, image: string, volumeMounts: Container["volumeMounts"]): Container {
  return {
    name: "kubectl-delivery",
    image,
    imagePullPolicy: "IfNotPresent",
    env: [
      { name: "TARGET_DIR", value: KUBECTL_FOLDER },
      { name: "NAMESPACE", value: job.namespace },
    ],
    resources: {
      limits: { cpu: "100m", memory: "512Mi", "ephemeral-storage": "5Gi" },
      requests: { cpu: "100m", memory: "512Mi", "ephemeral-storage": "5Gi" },
    },
    volumeMounts,
  };
}

function configMap(job: JobIdentity, spec: JobSpec): CompanionObject {
  const slots = spec.settings?.["slotsPerWorker"] ?? "1";
  const container = findReplica(spec, "worker")?.mainContainer ?? "mpi";
  return {
    apiVersion: "v1",
    kind: "ConfigMap",
    plural: "configmaps",
    metadata: { name: `${job.name}-config` },
    data: {
      hostfile: hosts(job, spec)
        .map((host) => `${host} slots=${slots}\n`)
        .join(""),
      "kubexec.sh": kubexec(container),
      "discover_hosts.sh": discoverHosts(job, slots),
    },
  };
}

/** Lists the hosts. The launcher is a host too if it has GPUs. */
function hosts(job: JobIdentity, spec: JobSpec): readonly string[] {
  const workers = findReplica(spec, "worker")?.replicas ?? 0;
  const launcher = usesGpus(findReplica(spec, "launcher"))
    ? [buildMemberName(job, { type: "launcher", index: 0 })]
    : [];
  return [
    ...launcher,
    ...Array.from({ length: workers }, (_, index) => buildMemberName(job, { type: "worker", index })),
  ];
}

function usesGpus(replica: ReplicaSpec | undefined): boolean {
  const containers = replica?.template.spec.containers ?? [];
  return containers.some(({ resources }) => Object.keys(resources?.limits ?? {}).some((name) => name.includes("gpu")));
}

/** Builds the agent script. mpirun calls it like ssh: options, the host, then the words of a command. */
function kubexec(container: string): string {
  return `#!/bin/sh
PATH=${KUBECTL_FOLDER}:$PATH
while [ "\${1#-}" != "$1" ]; do shift; done
pod=$1
shift
exec kubectl exec "$pod" --container=${container} -- /bin/sh -c "$*"
`;
}

function discoverHosts(job: JobIdentity, slots: string): string {
  const { jobNameLabelKey, replicaTypeLabelKey } = KUBEFLOW_LABEL_KEYS;
  const selector = `${jobNameLabelKey}=${job.name},${replicaTypeLabelKey}=worker`;
  return `#!/bin/sh
PATH=${KUBECTL_FOLDER}:$PATH
exec kubectl get pods --selector=${selector} --field-selector=status.phase=Running \\
  --output='jsonpath={range .items[*]}{.metadata.name}:${slots}{"\\n"}{end}'
`;
}

/**
 * Builds the launcher's right to list the workers of its own job and run commands in them. The launcher gets its own account, unless its template names one.
 */
function identity(job: JobIdentity, spec: JobSpec): readonly CompanionObject[] {
  const name = `${job.name}-launcher`;
  const named = findReplica(spec, "launcher")?.template.spec["serviceAccountName"];
  const account = typeof named === "string" && named !== "" ? named : name;
  const rbac = "rbac.authorization.k8s.io";
  const pods = hosts(job, spec);
  return [
    ...(account === name
      ? [{ apiVersion: "v1", kind: "ServiceAccount", plural: "serviceaccounts", metadata: { name } }]
      : []),
    {
      apiVersion: `${rbac}/v1`,
      kind: "Role",
      plural: "roles",
      metadata: { name },
      rules: [
        { apiGroups: [""], resources: ["pods"], verbs: ["get", "list", "watch"] },
        { apiGroups: [""], resources: ["pods/exec"], resourceNames: pods, verbs: ["create"] },
      ],
    },
    {
      apiVersion: `${rbac}/v1`,
      kind: "RoleBinding",
      plural: "rolebindings",
      metadata: { name },
      roleRef: { apiGroup: rbac, kind: "Role", name },
      subjects: [{ kind: "ServiceAccount", name: account, namespace: job.namespace }],
    },
  ];
}
