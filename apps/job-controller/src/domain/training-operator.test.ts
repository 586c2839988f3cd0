import { describe, expect, it } from "vitest";
import { DEFAULTS } from "../../test/manifests.ts";
import { buildService, groupServiceOwners } from "./build-service.ts";
import { JAXJOB_KIND } from "./kind-jaxjob.ts";
import { MPIJOB_KIND } from "./kind-mpijob.ts";
import { PYTORCHJOB_KIND } from "./kind-pytorchjob.ts";
import { TFJOB_KIND } from "./kind-tfjob.ts";
import type { Kind } from "./kind.ts";
import type { JobSpec, Member } from "./job.ts";
import { buildMemberName } from "./member-names.ts";

/** The environment of pods and tools with the training operator 1.9, kind by kind. docs/kubeflow.md lists the intended differences. */
const JOB = { namespace: "ml", name: "j", uid: "u" };
const KEYS = {
  labels: {
    managedBy: "m",
    installation: "i",
    ownerKind: "k",
    owner: "o",
    ownerUid: "ou",
    component: "c",
    attempt: "a",
    exclusive: "e",
  },
  annotations: { mainContainer: "mc", preemptedAt: "muster.dev/preempted-at", traceparent: "t" },
};

type Case = {
  readonly kind: Kind;
  readonly field: string;
  readonly container: string;
  /** The replicas by type, spelled as in manifests. */
  readonly replicas: Readonly<Record<string, number>>;
  readonly port: { readonly name: string; readonly number: number } | undefined;
  readonly restartPolicy: string;
  readonly success: JobSpec["success"];
  readonly master: string | undefined;
};

const CASES: readonly Case[] = [
  {
    kind: TFJOB_KIND,
    field: "tfReplicaSpecs",
    container: "tensorflow",
    replicas: { Chief: 1, PS: 1, Worker: 2, Evaluator: 1 },
    port: { name: "tfjob-port", number: 2222 },
    restartPolicy: "Never",
    success: [[{ type: "chief", indexes: "all" }]],
    master: "j-chief-0",
  },
  {
    kind: PYTORCHJOB_KIND,
    field: "pytorchReplicaSpecs",
    container: "pytorch",
    replicas: { Master: 1, Worker: 2 },
    port: { name: "pytorchjob-port", number: 23_456 },
    restartPolicy: "OnFailure",
    success: [[{ type: "master", indexes: "all" }]],
    master: "j-master-0",
  },
  {
    kind: MPIJOB_KIND,
    field: "mpiReplicaSpecs",
    container: "mpi",
    replicas: { Launcher: 1, Worker: 2 },
    port: undefined,
    restartPolicy: "Never",
    success: [[{ type: "launcher", indexes: "all" }]],
    master: "j-launcher-0",
  },
  {
    kind: JAXJOB_KIND,
    field: "jaxReplicaSpecs",
    container: "jax",
    replicas: { Worker: 2 },
    port: { name: "jaxjob-port", number: 6666 },
    restartPolicy: "Never",
    success: [[{ type: "worker", indexes: "all" }]],
    master: "j-worker-0",
  },
];

function read({ kind }: Pick<Case, "kind">, spec: object): JobSpec {
  const result = kind.read({ metadata: { name: "j", namespace: "ml" }, spec }, DEFAULTS);
  if (!result.ok) throw new Error(JSON.stringify(result.problems));
  return result.spec;
}

function template(name: string, podSpec: object = {}, container: object = {}): object {
  return { spec: { ...podSpec, containers: [{ name, image: "i", ...container }] } };
}

function plain(each: Case): JobSpec {
  const specs = Object.entries(each.replicas).map(([type, replicas]) => [
    type,
    { replicas, template: template(each.container) },
  ]);
  return read(each, { [each.field]: Object.fromEntries(specs) as object });
}

function env(kind: Kind, spec: JobSpec, member: Member): Readonly<Record<string, string>> {
  return Object.fromEntries(
    kind.describeCluster(JOB, member, spec, DEFAULTS).env.map(({ name, value }) => [name, value]),
  );
}

describe.each(CASES.map((each) => [each.kind.kind, each] as const))(
  "a %s matches the training operator",
  (_name, each) => {
    const spec = plain(each);
    const members = spec.replicas.flatMap(({ type, replicas }) =>
      Array.from({ length: replicas }, (_, index) => ({ type, index })),
    );

    it("in the names and labels of its pods", () => {
      const found = members.map((member) => [buildMemberName(JOB, member), each.kind.labels(JOB, member, spec)]);
      const wanted = Object.entries(each.replicas).flatMap(([written, count]) =>
        Array.from({ length: count }, (_, index) => {
          const type = written.toLowerCase();
          const name = `j-${type}-${index}`;
          const labels = {
            "training.kubeflow.org/operator-name": `${each.kind.kind.toLowerCase()}-controller`,
            "training.kubeflow.org/job-name": "j",
            "training.kubeflow.org/replica-type": type,
            "training.kubeflow.org/replica-index": String(index),
            ...(name === each.master && { "training.kubeflow.org/job-role": "master" }),
          };
          return [name, labels] as const;
        }),
      );
      expect(Object.fromEntries(found)).toEqual(Object.fromEntries(wanted));
    });

    it("in its services: one per pod, with its name, no address and its port; none if the spec requests none", () => {
      const request = { kind: each.kind, job: JOB, spec };
      const services = [...groupServiceOwners(request)].map(([, owner]) => buildService(request, owner, KEYS));
      expect(services.map(({ metadata }) => metadata.name).sort()).toEqual(
        each.port === undefined ? [] : members.map((member) => buildMemberName(JOB, member)).sort(),
      );
      for (const { spec: of } of services) {
        expect(of.clusterIP).toBe("None");
        expect(of.ports).toEqual([{ name: each.port?.name, port: each.port?.number, protocol: "TCP" }]);
      }
    });

    it("in its defaults, and in its rule of success", () => {
      expect(new Set(spec.replicas.map(({ restartPolicy }) => restartPolicy))).toEqual(new Set([each.restartPolicy]));
      expect(spec.success).toEqual(each.success);
      expect([spec.backoffLimit, spec.activeDeadlineMs, spec.ttlAfterFinishedMs]).toEqual([
        undefined,
        undefined,
        undefined,
      ]);
    });

    it("in the port that a template gives under the known name", () => {
      if (each.port === undefined) return;
      const ports = [{ name: each.port.name, containerPort: 7 }];
      const [type = ""] = Object.keys(each.replicas).slice(-1);
      const own = read(each, { [each.field]: { [type]: { template: template(each.container, {}, { ports }) } } });
      expect(own.replicas[0]?.port).toEqual({ name: each.port.name, number: 7 });
    });
  },
);

describe("the processes of a PyTorchJob get the variables of the training operator", () => {
  const torch = (replicas: number) => ({ replicas, template: template("pytorch") });
  const described = (spec: object) =>
    env(PYTORCHJOB_KIND, read({ kind: PYTORCHJOB_KIND }, spec), { type: "worker", index: 0 });
  const rendezvous = { PET_RDZV_BACKEND: "c10d", PET_RDZV_ENDPOINT: "j-worker-0:23456" };
  const master = (size: string) => ({
    MASTER_ADDR: "j-master-0",
    MASTER_PORT: "23456",
    PET_MASTER_ADDR: "j-master-0",
    PET_MASTER_PORT: "23456",
    WORLD_SIZE: size,
    RANK: "1",
    PET_NODE_RANK: "1",
  });

  it.each<[title: string, spec: object, env: object]>([
    [
      "with a master",
      { pytorchReplicaSpecs: { Master: torch(1), Worker: torch(2) } },
      { ...master("3"), PET_NPROC_PER_NODE: "auto", PET_NNODES: "3" },
    ],
    [
      "with a master and a number of processes",
      { pytorchReplicaSpecs: { Master: torch(1), Worker: torch(2) }, nprocPerNode: "8" },
      { ...master("24"), PET_NPROC_PER_NODE: "8", PET_NNODES: "3" },
    ],
    [
      "with a word for their number",
      { pytorchReplicaSpecs: { Master: torch(1), Worker: torch(2) }, nprocPerNode: "gpu" },
      { ...master("3"), PET_NPROC_PER_NODE: "gpu", PET_NNODES: "3" },
    ],
    ["without a master", { pytorchReplicaSpecs: { Worker: torch(2) } }, { PET_NNODES: "2" }],
    [
      "when they are elastic",
      { pytorchReplicaSpecs: { Worker: torch(2) }, elasticPolicy: { minReplicas: 1, maxReplicas: 3 } },
      { ...rendezvous, PET_NNODES: "1:3" },
    ],
    [
      "when they are elastic without bounds",
      { pytorchReplicaSpecs: { Worker: torch(2) }, elasticPolicy: {} },
      { ...rendezvous, PET_NNODES: "2:2" },
    ],
    [
      "when they are elastic, with everything",
      {
        pytorchReplicaSpecs: { Worker: torch(1) },
        elasticPolicy: {
          rdzvBackend: "etcd",
          rdzvHost: "etcd",
          rdzvPort: 2379,
          rdzvId: "a",
          rdzvConf: [{ key: "b", value: "c" }],
          standalone: true,
          nProcPerNode: 4,
          maxRestarts: 0,
        },
      },
      {
        PET_RDZV_BACKEND: "etcd",
        PET_RDZV_ENDPOINT: "etcd:2379",
        PET_RDZV_ID: "a",
        PET_RDZV_CONF: "b=c",
        PET_STANDALONE: "",
        PET_NPROC_PER_NODE: "4",
        PET_MAX_RESTARTS: "0",
        PET_NNODES: "1:1",
      },
    ],
    [
      "when they are elastic with a master",
      { pytorchReplicaSpecs: { Master: torch(1), Worker: torch(2) }, elasticPolicy: {} },
      { ...master("3"), ...rendezvous, PET_NPROC_PER_NODE: "auto", PET_NNODES: "2:2" },
    ],
  ])("%s", (_title, spec, wanted) => {
    expect(described(spec)).toEqual({ PYTHONUNBUFFERED: "1", ...wanted });
  });

  it("and fails with two numbers of processes", () => {
    const spec = {
      pytorchReplicaSpecs: { Worker: torch(2) },
      nprocPerNode: "2",
      elasticPolicy: { nProcPerNode: 4 },
    };
    expect(PYTORCHJOB_KIND.read({ metadata: { name: "j" }, spec }, DEFAULTS)).toMatchObject({
      ok: false,
      problems: [{ field: "spec.elasticPolicy.nProcPerNode" }],
    });
  });
});

describe("the launcher of an MPIJob matches the training operator", () => {
  const launcher = (podSpec: object = {}, container: object = {}): JobSpec => {
    const Launcher = { template: template("mpi", podSpec, container) };
    const Worker = { replicas: 2, template: template("mpi") };
    return read({ kind: MPIJOB_KIND }, { mpiReplicaSpecs: { Launcher, Worker }, slotsPerWorker: 2 });
  };
  const companion = (spec: JobSpec, kind: string) =>
    MPIJOB_KIND.companions(JOB, spec, DEFAULTS).find((each) => each.kind === kind);
  const agents = {
    OMPI_MCA_plm_rsh_agent: "/etc/mpi/kubexec.sh",
    OMPI_MCA_orte_default_hostfile: "/etc/mpi/hostfile",
    I_MPI_HYDRA_BOOTSTRAP: "rsh",
    I_MPI_HYDRA_BOOTSTRAP_EXEC: "/etc/mpi/kubexec.sh",
  };

  it("gets the settings of Open MPI and Intel MPI to reach the workers, and no GPUs", () => {
    const hidden = { NVIDIA_VISIBLE_DEVICES: "", NVIDIA_DRIVER_CAPABILITIES: "" };
    expect(env(MPIJOB_KIND, launcher(), { type: "launcher", index: 0 })).toEqual({ ...agents, ...hidden });
    for (const name of ["nvidia.com/gpu", "amd.com/gpu", "example.com/gpu-memory"]) {
      const spec = launcher({}, { resources: { limits: { [name]: 1 } } });
      expect(env(MPIJOB_KIND, spec, { type: "launcher", index: 0 })).toEqual(agents);
    }
  });

  it("gets a list of hosts with their slots", () => {
    expect(companion(launcher(), "ConfigMap")).toMatchObject({
      metadata: { name: "j-config" },
      data: { hostfile: "j-worker-0 slots=2\nj-worker-1 slots=2\n" },
    });
  });

  it("gets its rights by its own account, or by the account that its template names", () => {
    const own = launcher();
    expect(companion(own, "ServiceAccount")?.metadata.name).toBe("j-launcher");
    expect(companion(own, "RoleBinding")?.["subjects"]).toMatchObject([{ name: "j-launcher" }]);
    const named = launcher({ serviceAccountName: "mine" });
    expect(companion(named, "ServiceAccount")).toBeUndefined();
    expect(companion(named, "RoleBinding")).toMatchObject({
      metadata: { name: "j-launcher" },
      roleRef: { name: "j-launcher" },
      subjects: [{ name: "mine", namespace: "ml" }],
    });
  });
});
