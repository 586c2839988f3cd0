import { describe, expect, it } from "vitest";
import type { JobSpec, Member } from "./job.ts";
import { JAXJOB_KIND } from "./kind-jaxjob.ts";
import { MPIJOB_KIND } from "./kind-mpijob.ts";
import { PYTORCHJOB_KIND } from "./kind-pytorchjob.ts";
import { TFJOB_KIND } from "./kind-tfjob.ts";
import type { Kind, KindDefaults } from "./kind.ts";

type Manifest = Readonly<Record<string, unknown>>;

const DEFAULTS: KindDefaults = {
  pool: "cpu",
  poolLabel: "pool",
  clusterDomain: undefined,
  scheduler: undefined,
  images: { waitForMaster: "alpine", kubectlDelivery: undefined },
};
const JOB = { namespace: "ml", name: "j", uid: "u" };

function replica(container: string, more: Manifest = {}, containerMore: Manifest = {}): Manifest {
  return { template: { spec: { containers: [{ name: container, image: "i", ...containerMore }] } }, ...more };
}

const tf = (more?: Manifest) => replica("tensorflow", more);
const torch = (more?: Manifest) => replica("pytorch", more);
const mpi = (more?: Manifest, containerMore?: Manifest) => replica("mpi", more, containerMore);

function manifest(spec: Manifest, name = "j"): Manifest {
  return { metadata: { name }, spec };
}

function specOf(kind: Kind, spec: Manifest): JobSpec {
  const result = kind.read(manifest(spec), DEFAULTS);
  if (!result.ok) throw new Error(JSON.stringify(result.problems));
  return result.spec;
}

function envOf(kind: Kind, spec: Manifest, member: Member): Record<string, string> {
  const { env } = kind.describeCluster(JOB, member, specOf(kind, spec), DEFAULTS);
  return Object.fromEntries(env.map(({ name, value }) => [name, value]));
}

describe("the common parts of Kubeflow's kinds", () => {
  it("use the defaults for a restart policy, a limit and a cleanup policy that the manifest omits", () => {
    const spec = specOf(TFJOB_KIND, { tfReplicaSpecs: { Worker: tf() } });
    expect(spec).toMatchObject({
      suspend: false,
      backoffLimit: undefined,
      activeDeadlineMs: undefined,
      ttlAfterFinishedMs: undefined,
      cleanPodPolicy: "Running",
    });
    expect(spec.replicas).toMatchObject([
      {
        type: "worker",
        replicas: 1,
        restartPolicy: "Never",
        pool: "cpu",
        mainContainer: "tensorflow",
        port: { name: "tfjob-port", number: 2222 },
      },
    ]);
    expect(specOf(PYTORCHJOB_KIND, { pytorchReplicaSpecs: { Worker: torch() } }).replicas[0]?.restartPolicy).toBe(
      "OnFailure",
    );
  });

  it.each(["WORKER", "worker", "Worker"])("accept a type in any letter case: %s", (written) => {
    const spec = specOf(TFJOB_KIND, { tfReplicaSpecs: { [written]: tf() } });
    expect(spec.replicas.map(({ type }) => [type, TFJOB_KIND.statusKey(type)])).toEqual([["worker", "Worker"]]);
  });

  it("keep the manifest's port of the framework", () => {
    const Worker = replica("tensorflow", {}, { ports: [{ name: "tfjob-port", containerPort: 5000 }] });
    expect(specOf(TFJOB_KIND, { tfReplicaSpecs: { Worker } }).replicas[0]?.port?.number).toBe(5000);
  });

  it("read cleanPodPolicy from the spec itself, as in earlier versions, unless runPolicy has one", () => {
    const specs = { mpiReplicaSpecs: { Launcher: mpi() } };
    expect(specOf(MPIJOB_KIND, { ...specs, cleanPodPolicy: "All" }).cleanPodPolicy).toBe("All");
    const both = { ...specs, cleanPodPolicy: "All", runPolicy: { cleanPodPolicy: "None" } };
    expect(specOf(MPIJOB_KIND, both).cleanPodPolicy).toBe("None");
  });

  it.each([
    [undefined, undefined],
    ["", undefined],
    ["muster.dev/job-controller", undefined],
    ["kubeflow.org/training-operator", "kubeflow.org/training-operator"],
    ["kueue.x-k8s.io/multikueue", "kueue.x-k8s.io/multikueue"],
  ])("leave a job with managedBy %s to the controller %s", (managedBy, others) => {
    const spec = specOf(TFJOB_KIND, { tfReplicaSpecs: { Worker: tf() }, runPolicy: { managedBy } });
    expect(spec.managedBy).toBe(others);
  });

  it("warn about settings that need another scheduler", () => {
    const schedulingPolicy = { minResources: { cpu: 1 }, priorityClass: "high", minAvailable: 1, queue: "q" };
    const result = TFJOB_KIND.read(
      manifest({ tfReplicaSpecs: { Worker: tf() }, runPolicy: { schedulingPolicy } }),
      DEFAULTS,
    );
    expect(result.ok && result.warnings.map(({ field }) => field)).toEqual([
      "spec.runPolicy.schedulingPolicy.minResources",
      "spec.runPolicy.schedulingPolicy.priorityClass",
    ]);
  });

  it.each<[title: string, kind: Kind, spec: Manifest, field: string, reason: RegExp]>([
    ["no replica types", TFJOB_KIND, {}, "spec.tfReplicaSpecs", /at least one replica type/],
    [
      "an unknown type",
      PYTORCHJOB_KIND,
      { pytorchReplicaSpecs: { PS: torch() } },
      "spec.pytorchReplicaSpecs.PS",
      /no replica type of a PyTorchJob, which has Master, Worker/,
    ],
    [
      "one type twice",
      TFJOB_KIND,
      { tfReplicaSpecs: { Worker: tf(), WORKER: tf() } },
      "spec.tfReplicaSpecs.Worker",
      /repeats Worker/,
    ],
    [
      "no container",
      TFJOB_KIND,
      { tfReplicaSpecs: { Worker: { template: { spec: {} } } } },
      "spec.tfReplicaSpecs.Worker.template.spec.containers",
      /at least one container/,
    ],
    [
      "no image",
      TFJOB_KIND,
      { tfReplicaSpecs: { Worker: replica("tensorflow", {}, { image: "" }) } },
      "spec.tfReplicaSpecs.Worker.template.spec.containers[0].image",
      /is missing/,
    ],
    [
      "no container of the framework",
      JAXJOB_KIND,
      { jaxReplicaSpecs: { Worker: tf() } },
      "spec.jaxReplicaSpecs.Worker.template.spec.containers",
      /needs a container named "jax"/,
    ],
    [
      "a chief and a master",
      TFJOB_KIND,
      { tfReplicaSpecs: { Chief: tf(), Master: tf() } },
      "spec.tfReplicaSpecs",
      /one of them at most/,
    ],
    [
      "two chiefs",
      TFJOB_KIND,
      { tfReplicaSpecs: { Chief: tf({ replicas: 2 }) } },
      "spec.tfReplicaSpecs.Chief.replicas",
      /must be 1: there is one Chief at most/,
    ],
    [
      "two masters",
      PYTORCHJOB_KIND,
      { pytorchReplicaSpecs: { Master: torch({ replicas: 2 }) } },
      "spec.pytorchReplicaSpecs.Master.replicas",
      /must be 1/,
    ],
    [
      "no launcher",
      MPIJOB_KIND,
      { mpiReplicaSpecs: { Worker: mpi({ replicas: 1 }) } },
      "spec.mpiReplicaSpecs",
      /needs a Launcher/,
    ],
    [
      "negative replicas",
      TFJOB_KIND,
      { tfReplicaSpecs: { Worker: tf({ replicas: -1 }) } },
      "spec.tfReplicaSpecs.Worker.replicas",
      /from 0/,
    ],
    ["no replica", TFJOB_KIND, { tfReplicaSpecs: { Worker: tf({ replicas: 0 }) } }, "metadata", /at least one replica/],
    [
      "an unknown restart policy",
      TFJOB_KIND,
      { tfReplicaSpecs: { Worker: tf({ restartPolicy: "No" }) } },
      "spec.tfReplicaSpecs.Worker.restartPolicy",
      /one of Always, OnFailure, Never, ExitCode/,
    ],
    [
      "an unknown manager",
      TFJOB_KIND,
      { tfReplicaSpecs: { Worker: tf() }, runPolicy: { managedBy: "a.b/c" } },
      "spec.runPolicy.managedBy",
      /must be one of .*multikueue/,
    ],
    [
      "an unknown success policy",
      TFJOB_KIND,
      { tfReplicaSpecs: { Worker: tf() }, successPolicy: "Half" },
      "spec.successPolicy",
      /AllWorkers/,
    ],
    [
      "processes that are no number",
      PYTORCHJOB_KIND,
      { pytorchReplicaSpecs: { Worker: torch() }, nprocPerNode: "many" },
      "spec.nprocPerNode",
      /auto, cpu, gpu or a number/,
    ],
    [
      "contradicting limits",
      PYTORCHJOB_KIND,
      { pytorchReplicaSpecs: { Worker: torch({ replicas: 4 }) }, elasticPolicy: { maxReplicas: 3 } },
      "spec.elasticPolicy",
      /not 4, 4, 3/,
    ],
    [
      "an unknown main container",
      MPIJOB_KIND,
      { mpiReplicaSpecs: { Launcher: mpi() }, mainContainer: "x" },
      "spec.mainContainer",
      /no container of the launcher/,
    ],
  ])("refuse %s", (_title, kind, spec, field, reason) => {
    const result = kind.read(manifest(spec), { ...DEFAULTS });
    expect(result.ok ? [] : result.problems).toContainEqual({ field, reason: expect.stringMatching(reason) as string });
  });

  it("name the ways to choose a pool", () => {
    const result = TFJOB_KIND.read(manifest({ tfReplicaSpecs: { Worker: tf() } }), { ...DEFAULTS, pool: undefined });
    expect(result.ok ? "" : result.problems[0].reason).toMatch(
      /nodeSelector\["pool"\], the annotation muster\.dev\/pool of the job, or the controller's default pool/,
    );
  });

  it("refuse a name that is invalid for a service", () => {
    const result = TFJOB_KIND.read(manifest({ tfReplicaSpecs: { Worker: tf() } }, "1-a"), DEFAULTS);
    expect(result.ok ? "" : result.problems[0]).toMatchObject({ field: "metadata.name" });
  });
});

describe("the member that represents a job", () => {
  it.each<[string, Kind, Manifest, Member]>([
    ["its chief", TFJOB_KIND, { tfReplicaSpecs: { Chief: tf(), Worker: tf() } }, { type: "chief", index: 0 }],
    [
      "worker 0 without one",
      TFJOB_KIND,
      { tfReplicaSpecs: { PS: tf(), Worker: tf({ replicas: 2 }) } },
      { type: "worker", index: 0 },
    ],
    [
      "its launcher",
      MPIJOB_KIND,
      { mpiReplicaSpecs: { Launcher: mpi(), Worker: mpi({ replicas: 1 }) } },
      { type: "launcher", index: 0 },
    ],
  ])("is %s", (_title, kind, manifestSpec, master) => {
    const spec = specOf(kind, manifestSpec);
    const members = spec.replicas.flatMap(({ type, replicas }) =>
      Array.from({ length: replicas }, (_, index) => ({ type, index })),
    );
    const marked = members.filter(
      (member) => kind.labels(JOB, member, spec)["training.kubeflow.org/job-role"] === "master",
    );
    expect(marked).toEqual([master]);
  });
});

describe("a TFJob", () => {
  it.each<[string, Manifest, unknown]>([
    ["the chief's end", { tfReplicaSpecs: { Chief: tf(), Worker: tf() } }, [[{ type: "chief", indexes: "all" }]]],
    ["the end of worker 0", { tfReplicaSpecs: { PS: tf(), Worker: tf() } }, [[{ type: "worker", indexes: [0] }]]],
    [
      "the end of all workers, by its success policy",
      { tfReplicaSpecs: { Worker: tf() }, successPolicy: "AllWorkers" },
      [[{ type: "worker", indexes: "all" }]],
    ],
    ["the end of all types, without workers", { tfReplicaSpecs: { PS: tf() } }, [[{ type: "ps", indexes: "all" }]]],
  ])("succeeds with %s", (_title, spec, success) => {
    expect(specOf(TFJOB_KIND, spec).success).toEqual(success);
  });

  const all = { Chief: tf(), PS: tf({ replicas: 2 }), Worker: tf({ replicas: 2 }), Evaluator: tf() };

  it("describes the whole cluster, including evaluators, to TensorFlow's container", () => {
    const spec = specOf(TFJOB_KIND, { tfReplicaSpecs: all });
    const described = TFJOB_KIND.describeCluster(JOB, { type: "worker", index: 1 }, spec, {
      ...DEFAULTS,
      clusterDomain: "c.l",
    });
    expect(described.containers).toEqual(["tensorflow"]);
    expect(JSON.parse(described.env[0]?.value ?? "")).toEqual({
      cluster: {
        chief: ["j-chief-0.ml.svc.c.l:2222"],
        evaluator: ["j-evaluator-0.ml.svc.c.l:2222"],
        ps: ["j-ps-0.ml.svc.c.l:2222", "j-ps-1.ml.svc.c.l:2222"],
        worker: ["j-worker-0.ml.svc.c.l:2222", "j-worker-1.ml.svc.c.l:2222"],
      },
      task: { type: "worker", index: 1 },
      environment: "cloud",
    });
  });

  it.each<[string, Manifest, Member, unknown]>([
    [
      "a worker",
      { PS: all.PS, Worker: all.Worker },
      { type: "worker", index: 1 },
      { worker: { 1: "j-worker-1.ml.svc:2222" }, ps: ["j-ps-0.ml.svc:2222", "j-ps-1.ml.svc:2222"] },
    ],
    [
      "a parameter server",
      { PS: all.PS, Worker: all.Worker },
      { type: "ps", index: 1 },
      { worker: {}, ps: ["j-ps-1.ml.svc:2222"] },
    ],
    // TensorFlow's ClusterSpec accepts lists and dictionaries, and no null.
    [
      "a worker without parameter servers",
      { Worker: all.Worker },
      { type: "worker", index: 1 },
      { worker: { 1: "j-worker-1.ml.svc:2222" }, ps: [] },
    ],
    ["a chief", { Chief: all.Chief, Worker: all.Worker }, { type: "chief", index: 0 }, { worker: {}, ps: [] }],
  ])("with dynamic workers gives %s only the addresses that stay valid", (_who, specs, member, cluster) => {
    const spec = { tfReplicaSpecs: specs, enableDynamicWorker: true };
    expect(JSON.parse(envOf(TFJOB_KIND, spec, member)["TF_CONFIG"] ?? "")).toEqual({ cluster, task: member });
  });

  it("does not fail with a dynamic worker", () => {
    const spec = specOf(TFJOB_KIND, { tfReplicaSpecs: { PS: tf(), Worker: tf() }, enableDynamicWorker: true });
    expect(spec.replicas.map(({ type, failuresIgnored }) => [type, failuresIgnored])).toEqual([
      ["ps", false],
      ["worker", true],
    ]);
  });

  it("gives a single process no description", () => {
    expect(envOf(TFJOB_KIND, { tfReplicaSpecs: { Worker: tf() } }, { type: "worker", index: 0 })).toEqual({});
  });
});

describe("a PyTorchJob", () => {
  const specs = { Master: torch(), Worker: torch({ replicas: 2 }) };

  it.each([
    ["master", 0, "0"],
    ["worker", 0, "1"],
    ["worker", 1, "2"],
  ])("gives %s %i its rank and the address of the master", (type, index, rank) => {
    expect(envOf(PYTORCHJOB_KIND, { pytorchReplicaSpecs: specs, nprocPerNode: "4" }, { type, index })).toEqual({
      PYTHONUNBUFFERED: "1",
      MASTER_ADDR: "j-master-0",
      MASTER_PORT: "23456",
      WORLD_SIZE: "12",
      RANK: rank,
      PET_MASTER_ADDR: "j-master-0",
      PET_MASTER_PORT: "23456",
      PET_NODE_RANK: rank,
      PET_NPROC_PER_NODE: "4",
      PET_NNODES: "3",
    });
  });

  it("makes workers wait for the name of the master, unless no image for that is configured", () => {
    const spec = specOf(PYTORCHJOB_KIND, { pytorchReplicaSpecs: specs });
    const waits = (type: string, waitForMaster: string | undefined) => {
      const images = { ...DEFAULTS.images, waitForMaster };
      return PYTORCHJOB_KIND.describeCluster(JOB, { type, index: 0 }, spec, { ...DEFAULTS, images }).initContainers;
    };
    expect(waits("worker", "alpine")).toMatchObject([{ name: "init-pytorch", image: "alpine" }]);
    expect(waits("worker", undefined)).toEqual([]);
    expect(waits("master", "alpine")).toEqual([]);
  });

  it("meets at worker 0 if it is elastic, and succeeds as soon as one worker does", () => {
    const elasticPolicy = {
      minReplicas: 1,
      maxReplicas: 3,
      maxRestarts: 5,
      rdzvId: "id",
      rdzvConf: [
        { key: "a", value: "1" },
        { key: "b", value: "2" },
      ],
    };
    const manifestSpec = { pytorchReplicaSpecs: { Worker: specs.Worker }, elasticPolicy };
    expect(envOf(PYTORCHJOB_KIND, manifestSpec, { type: "worker", index: 1 })).toEqual({
      PYTHONUNBUFFERED: "1",
      PET_RDZV_ENDPOINT: "j-worker-0:23456",
      PET_RDZV_BACKEND: "c10d",
      PET_NNODES: "1:3",
      PET_MAX_RESTARTS: "5",
      PET_RDZV_ID: "id",
      PET_RDZV_CONF: "a=1,b=2",
    });
    const spec = specOf(PYTORCHJOB_KIND, manifestSpec);
    expect(spec.success).toEqual([[{ type: "worker", indexes: "any" }]]);
    expect(spec.replicas[0]?.elastic).toEqual({ minReplicas: 1, maxReplicas: 3 });
  });
});

describe("an MPIJob", () => {
  const specs = { Launcher: mpi(), Worker: mpi({ replicas: 2 }) };

  it("starts its launcher after all workers are ready, and succeeds with it", () => {
    const spec = specOf(MPIJOB_KIND, { mpiReplicaSpecs: specs });
    expect(spec.replicas.map(({ type, dependsOn }) => [type, dependsOn])).toEqual([
      ["worker", []],
      ["launcher", [{ type: "worker", status: "Ready" }]],
    ]);
    expect(spec.success).toEqual([[{ type: "launcher", indexes: "all" }]]);
  });

  it("needs no init container if the image contains kubectl", () => {
    const spec = specOf(MPIJOB_KIND, { mpiReplicaSpecs: specs });
    const described = MPIJOB_KIND.describeCluster(JOB, { type: "launcher", index: 0 }, spec, DEFAULTS);
    expect(described.initContainers).toEqual([]);
    expect(described.volumes.map(({ name }) => name)).toEqual(["mpi-job-config"]);
    expect(described.podDefaults).toEqual({ serviceAccountName: "j-launcher" });
  });

  it("lists the launcher as a host if it has GPUs, and then does not hide them", () => {
    const gpus = { resources: { limits: { "nvidia.com/gpu": 1 } } };
    const manifestSpec = { mpiReplicaSpecs: { ...specs, Launcher: mpi({}, gpus) }, slotsPerWorker: 4 };
    const [config] = MPIJOB_KIND.companions(JOB, specOf(MPIJOB_KIND, manifestSpec), DEFAULTS);
    expect(config?.["data"]).toMatchObject({
      hostfile: "j-launcher-0 slots=4\nj-worker-0 slots=4\nj-worker-1 slots=4\n",
    });
    expect(envOf(MPIJOB_KIND, manifestSpec, { type: "launcher", index: 0 })).not.toHaveProperty(
      "NVIDIA_VISIBLE_DEVICES",
    );
  });

  it("mounts the agent script in every worker, because Open MPI expects it at that path", () => {
    const spec = specOf(MPIJOB_KIND, { mpiReplicaSpecs: specs });
    const described = MPIJOB_KIND.describeCluster(JOB, { type: "worker", index: 1 }, spec, DEFAULTS);
    const items = [{ key: "kubexec.sh", path: "kubexec.sh", mode: 0o555 }];
    expect(described.volumes).toEqual([{ name: "mpi-job-config", configMap: { name: "j-config", items } }]);
    expect(described.volumeMounts).toEqual([{ name: "mpi-job-config", mountPath: "/etc/mpi" }]);
    expect([described.containers, described.env]).toEqual([["mpi"], []]);
  });

  it("judges pods by the named main container", () => {
    const named = (name: string) => replica(name);
    const spec = specOf(MPIJOB_KIND, { mpiReplicaSpecs: { Launcher: named("run") }, mainContainer: "run" });
    expect(spec.replicas[0]?.mainContainer).toBe("run");
  });
});

it("a JAXJob gives each process its number and the coordinator", () => {
  const spec = { jaxReplicaSpecs: { Worker: replica("jax", { replicas: 3 }) } };
  expect(envOf(JAXJOB_KIND, spec, { type: "worker", index: 2 })).toEqual({
    PYTHONUNBUFFERED: "1",
    COORDINATOR_ADDRESS: "j-worker-0",
    COORDINATOR_PORT: "6666",
    NUM_PROCESSES: "3",
    PROCESS_ID: "2",
  });
});

it("refuses a gang whose description exceeds the size of a variable, with the numbers", () => {
  const gang = (
    replicas: number,
    kind = TFJOB_KIND,
    specs: Manifest = { tfReplicaSpecs: { Worker: tf({ replicas }) } },
  ) => kind.read({ metadata: { name: "a".repeat(50), namespace: "n".repeat(60) }, spec: specs }, DEFAULTS);
  expect(gang(1000)).toMatchObject({
    ok: false,
    problems: [
      {
        field: "metadata",
        reason:
          "the job has 1000 replicas, and with names as long as theirs TF_CONFIG has 133984 bytes; a process starts with 131072 at most",
      },
    ],
  });
  expect(gang(900).ok).toBe(true);
  expect(gang(1000, PYTORCHJOB_KIND, { pytorchReplicaSpecs: { Worker: torch({ replicas: 1000 }) } }).ok).toBe(true);
});
