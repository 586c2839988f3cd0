import { join } from "node:path";
import type { V1Pod } from "@kubernetes/client-node";
import { muster } from "@muster/proto";
import { until } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type JobObject, type LimitedWorld, startLimitedWorld } from "./limited-world.ts";
import { smallSession } from "./stack-world.ts";

const real = process.env["MUSTER_E2E_KUBECONFIG"];
const fixtures = process.env["MUSTER_CRD_FIXTURES"];
const tfjobs = fixtures === undefined ? undefined : join(fixtures, "kubeflow/kubeflow.org_tfjobs.yaml");
const on =
  real === undefined
    ? "the real cluster (skipped: MUSTER_E2E_KUBECONFIG names none)"
    : "the real cluster of MUSTER_E2E_KUBECONFIG";

/** Says its name to each of the others, by their names, and is done when all of them have said theirs to it. */
const GREET = `
  import { connect, createServer } from "node:net";
  const members = (names) => names.map((name) => name.split(":")[0]);
  const all = members(process.env.TF_CONFIG ? Object.values(JSON.parse(process.env.TF_CONFIG).cluster).flat() : JSON.parse(process.env.MUSTER_CLUSTER).worker);
  const others = all.filter((name) => name.split(".")[0] !== process.env.POD_NAME);
  const heard = new Set();
  const said = new Set();
  const isDone = () => heard.size === others.length && said.size === others.length;
  const server = createServer((socket) => {
    socket.on("data", (name) => { heard.add(String(name)); socket.end("welcome"); finish(); }).on("error", () => {});
  }).listen(2222);
  const finish = () => { if (isDone()) { console.log("met " + [...heard].sort().join(", ")); server.close(); } };
  const greet = (name) => connect(2222, name)
    .on("connect", function () { this.write(process.env.POD_NAME); })
    .on("data", () => { said.add(name); finish(); })
    .on("error", () => setTimeout(greet, 200, name));
  others.forEach(greet);
`;
const WAIT = `process.once("SIGTERM", () => process.exit(0)); setInterval(() => {}, 1000);`;

describe.skipIf(real === undefined)(`on ${on}, each service with only its rights of deploy/kubernetes,`, () => {
  let world: LimitedWorld;
  beforeAll(async () => {
    world = await startLimitedWorld(real ?? "", tfjobs === undefined ? {} : { definitions: [tfjobs] });
  }, 180_000);
  afterAll(() => world[Symbol.asyncDispose](), 120_000);

  it("a session runs and ends without a warning", { timeout: 120_000 }, async () => {
    const name = unique("session");
    await world.sessions.submitSession({ requestId: name, name, spec: smallSession({ driverSeconds: 1 }) });
    const session = await until(
      `${name} is finished`,
      async () => {
        const reply = await world.sessions.getSession({ name });
        const present = muster.session.v1.Session.create(reply.session ?? {});
        return present.finishedAtMs > 0 && present;
      },
      { timeoutMs: 60_000, everyMs: 100 },
    );
    expect(JSON.parse(session.resultJson)).toEqual({ workers: 2 });
    expect(session.warnings).toEqual([]);
    expect(await world.refusals()).toEqual([]);
  });

  it("the pods of a gang find each other by name and finish", { timeout: 180_000 }, async () => {
    const job = gang(unique("gang"), GREET);
    await world.createJob(job);
    await world.untilCondition(job, "Succeeded");
    const { name } = job.metadata;
    const key = { kind: "Job", name };
    const { chunk } = await world.jobs.getJobLogs({ key, component: "worker-0" });
    expect(Buffer.from(chunk).toString()).toBe(`met ${name}-worker-1, ${name}-worker-2\n`);
    const { events } = await world.jobs.listJobEvents({ key });
    expect(events.map(({ reason }) => reason)).toContain("SuccessfulCreatePod");
    expect(await world.refusals()).toEqual([]);
  });

  it("a gang is not evicted, and a pod deleted by force comes back on its machine", { timeout: 240_000 }, async () => {
    const job = gang(unique("kept"), WAIT);
    await world.createJob(job);
    const before = await untilThreeRun(world, job);
    const [first] = before;
    const name = first?.metadata?.name ?? "";
    const pods = { apiVersion: "v1", plural: "pods", namespace: "default" };
    const eviction = { apiVersion: "policy/v1", kind: "Eviction", metadata: { name, namespace: "default" } };
    await expect(world.calls.create(pods, eviction, { subresource: "eviction" })).rejects.toMatchObject({ code: 429 });
    await world.calls.delete(pods, name, { gracePeriodSeconds: 0 });
    const after = await until(
      `${name} runs again`,
      async () => {
        const running = await world.runningPods(job);
        const again = running.find(({ metadata }) => metadata?.name === name);
        return running.length === 3 && again?.metadata?.uid !== first?.metadata?.uid && running;
      },
      { timeoutMs: 120_000, everyMs: 100 },
    );
    expect(machines(after)).toEqual(machines(before));
    const key = { kind: "Job", name: job.metadata.name };
    await world.jobs.cancelJob({ key });
    await world.untilCondition(job, "Failed");
    expect(await world.refusals()).toEqual([]);
  });

  it.skipIf(tfjobs === undefined)(
    `a TFJob under Kubeflow's own definition runs, and the names of TF_CONFIG resolve${tfjobs === undefined ? " (skipped: MUSTER_CRD_FIXTURES names no folder)" : ""}`,
    { timeout: 180_000 },
    async () => {
      const job = tfjob(unique("tf"));
      await world.createJob(job);
      await world.untilCondition(job, "Succeeded");
      const { name } = job.metadata;
      const { chunk } = await world.jobs.getJobLogs({ key: { kind: "TFJob", name }, component: "worker-0" });
      expect(Buffer.from(chunk).toString()).toBe(`met ${name}-ps-0, ${name}-worker-1\n`);
      expect(await world.refusals()).toEqual([]);
    },
  );
});

/** Names of earlier runs on the same cluster may still be taken. */
function unique(name: string): string {
  return `e2e-${name}-${Date.now().toString(36)}`;
}

function container(name: string, program: string) {
  return {
    name,
    image: "node:24-bookworm-slim",
    imagePullPolicy: "IfNotPresent",
    command: ["node", "--input-type=module", "--eval", program],
    env: [{ name: "POD_NAME", valueFrom: { fieldRef: { fieldPath: "metadata.name" } } }],
  };
}

function gang(name: string, program: string): JobObject {
  const template = { spec: { terminationGracePeriodSeconds: 2, containers: [container("main", program)] } };
  return {
    apiVersion: "muster.dev/v1",
    kind: "Job",
    metadata: { name },
    spec: {
      runPolicy: { cleanPodPolicy: "Running", backoffLimit: 3 },
      replicaSpecs: { worker: { replicas: 3, pool: "workers", restartPolicy: "OnFailure", template } },
    },
  };
}

function tfjob(name: string): JobObject {
  const template = { spec: { nodeSelector: { pool: "workers" }, containers: [container("tensorflow", GREET)] } };
  return {
    apiVersion: "kubeflow.org/v1",
    kind: "TFJob",
    metadata: { name },
    spec: {
      runPolicy: { cleanPodPolicy: "Running" },
      tfReplicaSpecs: {
        PS: { replicas: 1, restartPolicy: "OnFailure", template },
        Worker: { replicas: 2, restartPolicy: "OnFailure", template },
      },
    },
  };
}

function untilThreeRun(world: LimitedWorld, job: JobObject): Promise<readonly V1Pod[]> {
  return until(
    `three pods of ${job.metadata.name} run`,
    async () => {
      const running = await world.runningPods(job);
      return running.length === 3 && running;
    },
    { timeoutMs: 60_000, everyMs: 100 },
  );
}

function machines(pods: readonly V1Pod[]): Readonly<Record<string, string | undefined>> {
  return Object.fromEntries(pods.map(({ metadata, spec }) => [metadata?.name ?? "", spec?.nodeName]));
}
