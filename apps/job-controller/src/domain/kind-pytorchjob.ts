import type { Container, JobSpec, Member } from "./job.ts";
import { type EnvVariable, type JobIdentity, type Kind, type KindDefaults, NO_DESCRIPTION } from "./kind.ts";
import { makeKubeflowKind, listMembers, findReplica, buildHeadSuccessRules, buildSuccessRules } from "./kubeflow.ts";
import { buildMemberName } from "./member-names.ts";
import { type Fields, NOT_NEGATIVE } from "./read-fields.ts";
import type { ReplicaDraft } from "./read-manifest.ts";
import { COUNT, PORT } from "./read-template.ts";

const PORT_NUMBER = 23_456;
/** The maximum number of lookups of the master's name by a worker, one every 2 seconds. */
const LOOK_UPS = 100;
const type = (name: string, single = false) => ({ name, replicasDefault: 1, single });

/** PyTorch's processes meet at the master, or at a rendezvous if the job is elastic. The master decides about success, or else the workers. */
export const PYTORCHJOB_KIND: Kind = makeKubeflowKind({
  kind: "PyTorchJob",
  plural: "pytorchjobs",
  replicaSpecs: "pytorchReplicaSpecs",
  types: [type("Master", true), type("Worker")],
  restartPolicyDefault: "OnFailure",
  container: { name: "pytorch", required: true },
  port: { name: "pytorchjob-port", number: PORT_NUMBER },
  finish: (spec, drafts) => {
    const policy = spec.object("elasticPolicy");
    const bounded = drafts.map((draft) => (draft.type === "worker" ? withBounds(draft, policy) : draft));
    const workers = buildSuccessRules(drafts, "worker", policy === undefined ? "all" : "any");
    return {
      drafts: bounded,
      success: buildHeadSuccessRules(drafts, ["master"], workers),
      settings: { ...readProcesses(spec, policy, drafts), ...(policy !== undefined && readRendezvous(policy)) },
    };
  },
  describeCluster: (job, member, spec, defaults) => ({
    ...NO_DESCRIPTION,
    env: [
      { name: "PYTHONUNBUFFERED", value: "1" },
      ...masterVariables(job, member, spec),
      ...elasticVariables(job, spec),
    ],
    initContainers: waitForMaster(job, member, spec, defaults),
  }),
  companions: () => [],
});

function withBounds(draft: ReplicaDraft, policy: Fields | undefined): ReplicaDraft {
  if (policy === undefined) return draft;
  const minReplicas = policy.integer("minReplicas", COUNT) ?? draft.replicas;
  const maxReplicas = policy.integer("maxReplicas", COUNT) ?? draft.replicas;
  if (minReplicas > draft.replicas || draft.replicas > maxReplicas)
    policy.refuse(
      "",
      `must have minReplicas <= replicas <= maxReplicas, not ${minReplicas}, ${draft.replicas}, ${maxReplicas}`,
    );
  return { ...draft, elastic: { minReplicas, maxReplicas } };
}

/** Without a master and a value, torch.distributed.run uses its own default. */
function readProcesses(
  spec: Fields,
  policy: Fields | undefined,
  drafts: readonly ReplicaDraft[],
): { readonly nprocPerNode?: string } {
  const own = spec.text("nprocPerNode");
  const old = policy?.integer("nProcPerNode", NOT_NEGATIVE);
  if (own !== undefined && old !== undefined)
    policy?.refuse("nProcPerNode", "is set beside spec.nprocPerNode; set one of them");
  const hasMaster = drafts.some(({ type: each, replicas }) => each === "master" && replicas > 0);
  const processes = own ?? old?.toString() ?? (hasMaster ? "auto" : undefined);
  if (processes === undefined) return {};
  if (!/^(auto|cpu|gpu|[1-9]\d{0,5})$/.test(processes))
    spec.refuse("nprocPerNode", `must be auto, cpu, gpu or a number, not "${processes}"`);
  return { nprocPerNode: processes };
}

/** Returns variables of torch.distributed.run from the fields of the policy; it has defaults for absent fields. */
function readRendezvous(policy: Fields): Readonly<Record<string, string>> {
  const conf = policy.objects("rdzvConf").map((pair) => `${pair.text("key") ?? ""}=${pair.text("value") ?? ""}`);
  const found = {
    rdzvBackend: policy.text("rdzvBackend") ?? "c10d",
    rdzvHost: policy.text("rdzvHost"),
    rdzvPort: policy.integer("rdzvPort", PORT)?.toString(),
    rdzvId: policy.text("rdzvId"),
    rdzvConf: conf.length === 0 ? undefined : conf.join(","),
    standalone: policy.flag("standalone") === true ? "" : undefined,
    maxRestarts: policy.integer("maxRestarts", NOT_NEGATIVE)?.toString(),
  };
  return Object.fromEntries(
    Object.entries(found).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  );
}

function masterVariables(job: JobIdentity, member: Member, spec: JobSpec): readonly EnvVariable[] {
  const master = findReplica(spec, "master");
  const { nprocPerNode: processes, rdzvBackend } = spec.settings ?? {};
  const launch = [
    ...(processes === undefined ? [] : [{ name: "PET_NPROC_PER_NODE", value: processes }]),
    ...(rdzvBackend === undefined ? [{ name: "PET_NNODES", value: String(listMembers(spec)) }] : []),
  ];
  if (master === undefined || master.replicas === 0) return launch;
  const address = buildMemberName(job, { type: "master", index: 0 });
  const port = String(master.port?.number ?? PORT_NUMBER);
  const rank = String(member.type === "master" ? 0 : member.index + 1);
  // Only the machine knows the number of processes behind `auto`.
  const world = listMembers(spec) * (/^\d+$/.test(processes ?? "") ? Number(processes) : 1);
  return [
    { name: "MASTER_ADDR", value: address },
    { name: "MASTER_PORT", value: port },
    { name: "WORLD_SIZE", value: String(world) },
    { name: "RANK", value: rank },
    { name: "PET_MASTER_ADDR", value: address },
    { name: "PET_MASTER_PORT", value: port },
    { name: "PET_NODE_RANK", value: rank },
    ...launch,
  ];
}

function elasticVariables(job: JobIdentity, spec: JobSpec): readonly EnvVariable[] {
  const settings = spec.settings ?? {};
  if (settings["rdzvBackend"] === undefined) return [];
  const worker = findReplica(spec, "worker");
  const host = settings["rdzvHost"] ?? buildMemberName(job, { type: "worker", index: 0 });
  const { minReplicas = 0, maxReplicas = 0 } = worker?.elastic ?? {};
  const variables = {
    PET_RDZV_ENDPOINT: `${host}:${settings["rdzvPort"] ?? String(worker?.port?.number ?? PORT_NUMBER)}`,
    PET_RDZV_BACKEND: settings["rdzvBackend"],
    PET_NNODES: `${minReplicas}:${maxReplicas}`,
    PET_MAX_RESTARTS: settings["maxRestarts"],
    PET_RDZV_ID: settings["rdzvId"],
    PET_RDZV_CONF: settings["rdzvConf"],
    PET_STANDALONE: settings["standalone"],
  };
  return Object.entries(variables).flatMap(([name, value]) => (value === undefined ? [] : [{ name, value }]));
}

/** A worker that starts before the name of its master resolves would fail immediately. */
function waitForMaster(
  job: JobIdentity,
  { type: own }: Member,
  spec: JobSpec,
  { images }: KindDefaults,
): readonly Container[] {
  const image = images.waitForMaster;
  if (image === undefined || own !== "worker" || (findReplica(spec, "master")?.replicas ?? 0) === 0) return [];
  const master = buildMemberName(job, { type: "master", index: 0 });
  const script = `for try in $(seq ${LOOK_UPS}); do nslookup ${master} && exit 0; echo waiting for ${master}; sleep 2; done; exit 1`;
  return [
    {
      name: "init-pytorch",
      image,
      imagePullPolicy: "IfNotPresent",
      command: ["sh", "-c", script],
      resources: { limits: { cpu: "100m", memory: "20Mi" }, requests: { cpu: "50m", memory: "10Mi" } },
    },
  ];
}
