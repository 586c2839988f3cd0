import { type Example, listReplicas } from "./examples.ts";
import type { Part } from "./play.ts";

const HEADLESS_SUFFIX = "default.svc";

/** Returns the description that each pod of a job must get by the training operator's documentation. */
export function expectParts(job: Example): Readonly<Record<string, Part>> {
  const members = listReplicas(job).flatMap(([type, , count]) =>
    Array.from({ length: count }, (_, index) => ({ type: type.toLowerCase(), index })),
  );
  return Object.fromEntries(
    members.map((member) => [
      `${job.metadata.name}-${member.type}-${member.index}`,
      {
        env: environment(job, member, members.length),
        files: files(job, member),
        output: [],
        ends: [0],
        isLast: isDecider(job, member),
      },
    ]),
  );
}

/** Whether the member decides: the master or launcher if one exists, or else the first worker. */
function isDecider(job: Example, { type, index }: Member): boolean {
  const types = listReplicas(job).map(([written]) => written.toLowerCase());
  const head = types.find((each) => each === "master" || each === "launcher") ?? "worker";
  return type === head && index === 0;
}

type Member = { readonly type: string; readonly index: number };

function environment(job: Example, member: Member, members: number): Part["env"] {
  const { name } = job.metadata;
  switch (job.kind) {
    case "TFJob":
      return { TF_CONFIG: members === 1 ? null : tensorflowConfig(job, member) };
    case "PyTorchJob":
      return { PYTHONUNBUFFERED: "1", ...torchVariables(job, member, members) };
    case "JAXJob":
      return {
        COORDINATOR_ADDRESS: `${name}-worker-0`,
        COORDINATOR_PORT: "6666",
        NUM_PROCESSES: String(members),
        PROCESS_ID: String(member.index),
      };
    default:
      return member.type === "launcher"
        ? {
            OMPI_MCA_plm_rsh_agent: "/etc/mpi/kubexec.sh",
            OMPI_MCA_orte_default_hostfile: "/etc/mpi/hostfile",
            NVIDIA_VISIBLE_DEVICES: "",
          }
        : { OMPI_MCA_orte_default_hostfile: null };
  }
}

function tensorflowConfig(job: Example, task: Member): string {
  const cluster = listReplicas(job)
    .map(([written, , count]): [string, string[]] => {
      const type = written.toLowerCase();
      const host = (index: number): string => `${job.metadata.name}-${type}-${index}.${HEADLESS_SUFFIX}:2222`;
      return [type, Array.from({ length: count }, (_, index) => host(index))];
    })
    .sort(([a], [b]) => (a < b ? -1 : 1));
  return JSON.stringify({ cluster: Object.fromEntries(cluster), task, environment: "cloud" });
}

function torchVariables(job: Example, { type, index }: Member, members: number): Part["env"] {
  const { name } = job.metadata;
  const { nprocPerNode = "auto", elasticPolicy } = job.spec as {
    readonly nprocPerNode?: string;
    readonly elasticPolicy?: {
      readonly minReplicas: number;
      readonly maxReplicas: number;
      readonly maxRestarts: number;
    };
  };
  if (elasticPolicy !== undefined) {
    return {
      PET_RDZV_BACKEND: "c10d",
      PET_RDZV_ENDPOINT: `${name}-worker-0:23456`,
      PET_NNODES: `${elasticPolicy.minReplicas}:${elasticPolicy.maxReplicas}`,
      PET_MAX_RESTARTS: String(elasticPolicy.maxRestarts),
      MASTER_ADDR: null,
      RANK: null,
    };
  }
  const rank = String(type === "master" ? 0 : index + 1);
  const processes = nprocPerNode === "auto" ? 1 : Number(nprocPerNode);
  return {
    MASTER_ADDR: `${name}-master-0`,
    MASTER_PORT: "23456",
    WORLD_SIZE: String(members * processes),
    RANK: rank,
    PET_MASTER_ADDR: `${name}-master-0`,
    PET_MASTER_PORT: "23456",
    PET_NODE_RANK: rank,
    PET_NNODES: String(members),
    PET_NPROC_PER_NODE: nprocPerNode,
    PET_RDZV_ENDPOINT: null,
  };
}

function files(job: Example, { type }: Member): Part["files"] {
  if (job.kind !== "MPIJob" || type !== "launcher") return {};
  const workers = listReplicas(job).find(([written]) => written === "Worker")?.[2] ?? 0;
  const lines = Array.from({ length: workers }, (_, index) => `${job.metadata.name}-worker-${index} slots=1\n`);
  return { "etc/mpi/hostfile": lines.join("") };
}
