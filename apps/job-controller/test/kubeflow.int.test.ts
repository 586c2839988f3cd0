import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import type { V1Pod, V1Service } from "@kubernetes/client-node";
import { attachNodes } from "@muster/devcluster";
import { annotations, labels } from "@muster/proto";
import { until } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parse } from "yaml";
import { API_SERVERS } from "./api-servers.ts";
import { openJobWorld, type JobWorld, type TestJob } from "./job-world.ts";
import {
  type Example,
  FIXTURES,
  isExample,
  listPublishedDefinitions,
  readExamples,
  listReplicas,
  withPrograms,
} from "./kubeflow/examples.ts";
import { expectParts } from "./kubeflow/expect-parts.ts";
import type { Part, Play } from "./kubeflow/play.ts";

const HERE = dirname(fileURLToPath(import.meta.url));
const CRDS = join(HERE, "../../../deploy/crds");
const PROGRAM = join(HERE, "kubeflow/member.process.ts");
const JAX = join(HERE, "jobs/jaxjob.yaml");
const NAMESPACE = "default";
/** The largest example has two parameter servers and four workers; the JAX example chooses its own pool. */
const POOLS = { machines: 6, tpu: 2 };
const KUBECTL = [process.env["KUBEBUILDER_ASSETS"] ?? "", ...(process.env["PATH"] ?? "").split(":")].find((directory) =>
  existsSync(join(directory, "kubectl")),
);

type Ends = Readonly<Record<string, readonly number[]>>;
type End = {
  /** The exit codes of a pod's runs, by the end of its name; other pods succeed immediately. Without codes a pod runs until it is ended. */
  readonly ends?: Ends;
  readonly is: "Succeeded" | "Failed";
  readonly reason?: string;
  /** The number of succeeded pods of each type, under its published key. */
  readonly succeeded?: Readonly<Record<string, number>>;
  readonly restarts?: number;
};

/** The end of each example, as its framework would end it; parameter servers never end by themselves. */
const ENDS: Readonly<Record<string, End>> = {
  "mpi/tensorflow-mnist-elastic.yaml": { is: "Succeeded", succeeded: { Launcher: 1, Worker: 0 } },
  "mpi/tensorflow-mnist.yaml": { is: "Succeeded", succeeded: { Launcher: 1, Worker: 0 } },
  "pytorch/cpu-demo/demo.yaml": { is: "Succeeded", succeeded: { Master: 1, Worker: 1 } },
  "pytorch/elastic/echo/echo.yaml": { ends: { "worker-1": [] }, is: "Succeeded", succeeded: { Worker: 1 } },
  "pytorch/elastic/imagenet/imagenet.yaml": { ends: { "worker-0": [1, 0] }, is: "Succeeded", restarts: 1 },
  "pytorch/mnist/v1/pytorch_job_mnist_gloo.yaml": { is: "Succeeded", succeeded: { Master: 1, Worker: 1 } },
  "pytorch/mnist/v1/pytorch_job_mnist_mpi.yaml": {
    ends: { "worker-0": [] },
    is: "Succeeded",
    succeeded: { Master: 1 },
  },
  "pytorch/mnist/v1/pytorch_job_mnist_nccl.yaml": { is: "Succeeded", succeeded: { Master: 1, Worker: 1 } },
  "pytorch/simple.yaml": { ends: { "worker-0": [137, 0] }, is: "Succeeded", restarts: 1 },
  "pytorch/smoke-dist/pytorch_job_sendrecv.yaml": { is: "Succeeded", succeeded: { Master: 1, Worker: 3 } },
  "tensorflow/dist-mnist/tf_job_mnist.yaml": {
    ends: { "ps-0": [], "ps-1": [] },
    is: "Succeeded",
    succeeded: { PS: 0, Worker: 4 },
  },
  "tensorflow/distribution_strategy/estimator-API/distributed_tfjob.yaml": {
    ends: { "worker-0": [], "worker-1": [1], "worker-2": [] },
    is: "Failed",
    reason: "PodFailed",
  },
  "tensorflow/distribution_strategy/keras-API/multi_worker_tfjob.yaml": { is: "Succeeded", succeeded: { Worker: 2 } },
  "tensorflow/mnist_with_summaries/tf_job_mnist.yaml": { is: "Succeeded", succeeded: { Worker: 1 } },
  "tensorflow/simple.yaml": { ends: { "worker-1": [1, 0] }, is: "Succeeded", restarts: 1 },
};

const title = FIXTURES.found ? "Kubeflow's examples" : `Kubeflow's examples (skipped: ${FIXTURES.reason})`;
const examples = FIXTURES.found ? readExamples() : new Map<string, Example>();

describe.skipIf(!FIXTURES.found)(title, () => {
  it("all have an end", () => {
    expect([...examples.keys()]).toEqual(Object.keys(ENDS));
  });
});

for (const server of API_SERVERS) {
  describe.skipIf(server.skip || !FIXTURES.found)(`${title} under ${server.title}`, () => {
    let world: JobWorld;
    let folder: string;

    beforeAll(async () => {
      folder = await mkdtemp(join(tmpdir(), "muster-kubeflow-"));
      const api = await server.start();
      const pools = Object.entries(POOLS).map(([name, nodes]) => ({
        name,
        nodes,
        capacity: { "nvidia.com/gpu": "1" },
      }));
      const startNodes = (kubeconfig: string): Promise<AsyncDisposable> =>
        attachNodes({ kubeconfig, pools, stopGraceMs: 200, ...api.nodeOptions });
      const definitions = [
        "muster.dev_jobs.yaml",
        "kubeflow.org_jaxjobs.yaml",
        ...listPublishedDefinitions().map((file) => relative(CRDS, file)),
      ];
      world = await openJobWorld(api, POOLS, { startNodes, definitions });
      await world.startController({ JOB_DEFAULT_POOL: "machines" });
    });

    afterAll(async () => {
      await world[Symbol.asyncDispose]();
      await rm(folder, { recursive: true, force: true });
    });

    /** Runs a job to its end, and checks it while it runs, after its end, and after its deletion. */
    const play = async (example: Example, end: End): Promise<void> => {
      const { name } = example.metadata;
      const own = await mkdtemp(join(folder, "job-"));
      const parts = partsOf(example, end, { ...world, hasExec: !server.isReal });
      const program = [process.execPath, PROGRAM, JSON.stringify({ folder: own, parts })];
      const job = withPrograms(example, (_type, { command, args }) =>
        isSilentWorker(example, { command, args }) ? undefined : program,
      );
      const { metadata } = await world.create(job);
      const plural = `${example.kind.toLowerCase()}s`;
      const members = Object.keys(expectParts(example)).sort();
      const hasServices = example.kind !== "MPIJob";

      await until(
        `every pod of ${name} runs as it should`,
        async () => {
          const wrong = await readFile(join(own, "wrong"), "utf8").catch(() => "");
          const pods = await world.pods(name);
          return wrong !== "" || (pods.length === members.length && pods.every(isInLastRun(end)));
        },
        { timeoutMs: 90_000 },
      );
      expect(await readFile(join(own, "wrong"), "utf8").catch(() => "")).toBe("");
      await world.untilCondition(name, "Running", plural);
      expect(await servicesOf(world, metadata.uid)).toEqual(hasServices ? members : []);
      await writeFile(join(own, "end"), "");
      const first = Object.keys(parts).filter((pod) => parts[pod]?.isLast === false && parts[pod].ends.length > 0);
      const isOver = ({ metadata: of, status }: V1Pod): boolean =>
        !first.includes(of?.name ?? "") || status?.phase === "Succeeded" || status?.phase === "Failed";
      if (example.kind !== "MPIJob")
        await until("all but the one that decides have ended", async () => (await world.pods(name)).every(isOver));
      await writeFile(join(own, "last"), "");

      const ended = await world.untilCondition(name, end.is, plural);
      // The errors that a process found after it ran.
      expect(await readFile(join(own, "wrong"), "utf8").catch(() => "")).toBe("");
      expectEnd(ended, example, end);
      const keeps = (example.spec["runPolicy"] as { cleanPodPolicy?: string } | undefined)?.cleanPodPolicy === "None";
      if (!keeps) {
        await world.untilNothingLeft(name);
        await until("its services are gone", async () => (await servicesOf(world, metadata.uid)).length === 0);
      }
      const resource = { apiVersion: example.apiVersion, plural, namespace: NAMESPACE };
      await world.calls.delete(resource, name, { propagationPolicy: "Background" });
      if (server.isReal) await collect(world, name);
      else await until("its companions are gone", async () => (await companionsOf(world, name)).length === 0);
      await world.untilNothingLeft(name);
      await until("nothing remains of the job", async () => (await world.pods(name)).length === 0);
    };

    it.each([...examples].map(([file, example]) => [file, example.kind, example] as const))(
      "runs %s, a %s, to its end",
      (file, _kind, example) => play(example, ENDS[file] ?? { is: "Succeeded" }),
      180_000,
    );

    it("runs a JAXJob of two processes, and recreates the one that a signal ends", async () => {
      const example: unknown = parse(await readFile(JAX, "utf8"));
      if (!isExample(example)) throw new Error(`${JAX} is no job`);
      await play(example, { ends: { "worker-1": [143, 0] }, is: "Succeeded", succeeded: { Worker: 2 }, restarts: 1 });
    }, 180_000);
  });
}

/** Whether the container is that of an MPI worker, whose command the controller sets. */
function isSilentWorker({ kind }: Example, { command, args }: { readonly command?: unknown; readonly args?: unknown }) {
  return kind === "MPIJob" && command === undefined && args === undefined;
}

function partsOf(example: Example, { ends = {} }: End, tools: Tools): Play["parts"] {
  const { name } = example.metadata;
  return Object.fromEntries(
    Object.entries(expectParts(example)).map(([pod, part]): [string, Part] => {
      const own = ends[pod.slice(name.length + 1)] ?? part.ends;
      const output = pod.endsWith("-launcher-0") ? launcherOutput(example, tools) : part.output;
      return [pod, { ...part, ends: own, output }];
    }),
  );
}

/** `hasExec` is false with a kube-apiserver: it speaks SPDY to kubelets, which ours do not, so that no command can run in a pod. */
type Tools = { readonly kubeconfig: string; readonly hasExec: boolean };

/** Acts as mpirun and horovodrun: waits for hosts, and executes commands in workers in place of ssh. */
function launcherOutput(example: Example, { kubeconfig, hasExec }: Tools): Part["output"] {
  if (KUBECTL === undefined) return [];
  const { name } = example.metadata;
  const workers = listReplicas(example).find(([type]) => type === "Worker")?.[2] ?? 0;
  const hosts = Array.from({ length: workers }, (_, index) => `${name}-worker-${index}`);
  const shell = (line: string): readonly string[] => [
    "sh",
    "-c",
    `KUBECONFIG=${kubeconfig} PATH=${KUBECTL}:$PATH ${line}`,
  ];
  const rsh = hosts.map((host) => ({
    command: shell(`etc/mpi/kubexec.sh -x ${host} echo '$HOSTNAME'`),
    text: `${host}\n`,
  }));
  return [
    { command: shell("etc/mpi/discover_hosts.sh"), text: hosts.map((host) => `${host}:1\n`).join("") },
    ...(hasExec ? rsh : []),
  ];
}

function isInLastRun({ ends = {} }: End): (pod: V1Pod) => boolean {
  return ({ metadata, status }) => {
    const [, runs = [0]] = Object.entries(ends).find(([member]) => metadata?.name?.endsWith(`-${member}`)) ?? [];
    const restarts = status?.containerStatuses?.[0]?.restartCount ?? 0;
    const isRestarted = metadata?.annotations?.[annotations.mainContainer] === "jax" || restarts >= runs.length - 1;
    return status?.phase === "Running" && isRestarted;
  };
}

async function servicesOf({ calls }: JobWorld, uid = ""): Promise<string[]> {
  const resource = { apiVersion: "v1", plural: "services", namespace: NAMESPACE };
  const { items } = await calls.list<V1Service>(resource, { query: { labelSelector: `${labels.ownerUid}=${uid}` } });
  return items.map(({ metadata }) => metadata?.name ?? "").sort();
}

/** Lists objects of any kind with the name of a launcher. */
async function companionsOf({ calls }: JobWorld, name: string): Promise<string[]> {
  const group = "rbac.authorization.k8s.io/v1";
  const kinds = [
    { apiVersion: "v1", plural: "serviceaccounts" },
    { apiVersion: group, plural: "roles" },
    { apiVersion: group, plural: "rolebindings" },
  ];
  const found = await Promise.all(kinds.map((kind) => calls.list({ ...kind, namespace: NAMESPACE })));
  return found
    .flatMap(({ items }) => items.map(({ metadata }) => metadata?.name ?? ""))
    .filter((each) => each === `${name}-launcher`);
}

function expectEnd({ metadata, status }: TestJob, example: Example, { is, reason, succeeded = {}, restarts = 0 }: End) {
  const isTrue = status?.conditions?.filter((condition) => condition.status === "True").map(({ type }) => type);
  expect(isTrue?.filter((type) => ["Running", "Succeeded", "Failed"].includes(type))).toEqual([is]);
  if (reason !== undefined) expect(status?.conditions?.find(({ type }) => type === is)?.reason).toBe(reason);
  const types = listReplicas(example).map(([type]) => type);
  expect(Object.keys(status?.replicaStatuses ?? {}).sort()).toEqual(types.sort());
  for (const [type, count] of Object.entries(succeeded))
    expect(status?.replicaStatuses?.[type]?.succeeded ?? 0, type).toBe(count);
  const progress = JSON.parse(metadata.annotations?.[annotations.progress] ?? "{}") as Progress;
  const counted = Object.values(progress.replicas ?? {}).map((replica) => replica.restarts);
  expect(counted.reduce((sum, count) => sum + count, 0)).toBe(restarts);
  if (is === "Succeeded")
    expect(Object.values(progress.replicas ?? {}).some(({ completedIndexes }) => completedIndexes !== "")).toBe(true);
}

type Progress = {
  readonly replicas?: Readonly<Record<string, { readonly restarts: number; readonly completedIndexes: string }>>;
};

/** Acts as the garbage collector, for an API server without one. */
async function collect({ calls, pods }: JobWorld, job: string): Promise<void> {
  const resource = { apiVersion: "v1", plural: "pods", namespace: NAMESPACE };
  for (const { metadata } of await pods(job))
    await calls.delete(resource, metadata?.name ?? "", { gracePeriodSeconds: 0 });
}
