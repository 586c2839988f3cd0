import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { until } from "@muster/testkit";
import { parse } from "yaml";
import { API_SERVERS } from "./api-servers.ts";
import { openJobWorld, type JobWorld, type TestJob } from "./job-world.ts";

const POOLS = { workers: 3, drivers: 1 };
const EXAMPLES = new URL("../../../examples/", import.meta.url);

for (const server of API_SERVERS) {
  describe.skipIf(server.skip)(`jobs of real processes under ${server.title}`, () => {
    let world: JobWorld;

    beforeAll(async () => {
      const definitions = ["muster.dev_jobs.yaml", "kubeflow.org_pytorchjobs.yaml"];
      world = await openJobWorld(await server.start(), POOLS, { definitions });
      await world.startController();
    });

    afterAll(() => world[Symbol.asyncDispose]());

    it("runs the example from its queue to its final condition, and leaves nothing", async () => {
      const job = parse(await readFile(new URL("training-job.yaml", EXAMPLES), "utf8")) as TestJob;
      await world.create(job);
      const done = await world.untilCondition("training", "Succeeded");
      expect(done.status).toMatchObject({ state: "Succeeded", completions: "4/4", restarts: 0 });
      expect(done.status?.conditions?.filter(({ status }) => status === "True").map(({ type }) => type)).toEqual([
        "Created",
        "Succeeded",
      ]);
      await world.untilNothingLeft("training");
    });

    it("is submitted, watched, explained, read and cancelled over the bus", async () => {
      const manifest = {
        apiVersion: "muster.dev/v1",
        kind: "Job",
        metadata: { name: "talker", labels: { team: "a" } },
        spec: {
          replicaSpecs: {
            worker: {
              replicas: 2,
              pool: "workers",
              template: {
                spec: { containers: [{ name: "main", image: "node", command: ["sh", "-c", "echo hello; sleep 600"] }] },
              },
            },
          },
        },
      };
      const manifestJson = JSON.stringify(manifest);
      const { job } = await world.jobs.submitJob({ requestId: "one", manifestJson });
      const again = await world.jobs.submitJob({ requestId: "one", manifestJson });
      expect(again.job?.uid).toBe(job?.uid);
      await expect(world.jobs.submitJob({ requestId: "two", manifestJson })).rejects.toMatchObject({
        fault: { code: "already_exists", kind: "Job", id: "talker" },
      });

      const key = { kind: "Job", name: "talker" };
      let seen = job;
      while (seen?.state !== "RUNNING" || seen.members.some(({ state }) => state !== "RUNNING")) {
        const request = { key, afterRevision: seen?.revision ?? "", waitMs: 20_000 };
        ({ job: seen } = await world.jobs.watchJob(request, { timeoutMs: 30_000 }));
      }
      expect(seen.members.map(({ component, pool }) => `${component} in ${pool}`)).toEqual([
        "worker-0 in workers",
        "worker-1 in workers",
      ]);
      const { explanation } = await world.jobs.explainJob({ key });
      expect(explanation).toMatchObject({
        ...{ kind: "job", name: "talker", phase: "RUNNING", isOver: false },
        reasons: [{ code: "RUNNING" }],
        reservation: { reservation: { owner: { kind: "job", id: seen.ownerId } } },
      });
      const { reservation } = await world.ledger.getReservation({ owner: { kind: "job", id: seen.ownerId } });
      expect(reservation?.machines.map(({ component }) => component)).toEqual(["worker-0", "worker-1"]);
      const { chunk } = await until("the log exists", async () => {
        const log = await world.jobs.getJobLogs({ key: { name: "talker" }, component: "worker-1" });
        return log.chunk.length > 0 && log;
      });
      expect(Buffer.from(chunk).toString()).toBe("hello\n");
      // Normal events within a second become one event, after a delay.
      const made = await until("both pods are reported", async () => {
        const { events } = await world.jobs.listJobEvents({ key });
        const reported = events.filter(({ reason }) => reason === "SuccessfulCreatePod");
        const pods = reported.flatMap(({ message }) => message.replace("Created pod: ", "").split(", "));
        return pods.length >= 2 && { pods: pods.toSorted(), types: new Set(reported.map(({ type }) => type)) };
      });
      expect(made).toEqual({ pods: ["talker-worker-0", "talker-worker-1"], types: new Set(["Normal"]) });
      const namesOf = async (labelSelector: string): Promise<readonly (string | undefined)[]> => {
        const { jobs } = await world.jobs.listJobs({ labelSelector });
        return jobs.map((each) => each.key?.name);
      };
      expect(await namesOf("")).toContain("talker");
      expect(await namesOf("team in (a, b)")).toEqual(["talker"]);
      expect(await namesOf("team!=a")).not.toContain("talker");

      await world.jobs.cancelJob({ requestId: "three", key });
      const cancelled = await world.untilCondition("talker", "Failed");
      expect(cancelled.status?.conditions?.find(({ type }) => type === "Failed")?.reason).toBe("Cancelled");
      await world.untilNothingLeft("talker");
    });

    it.each([
      ["a pod that is recreated", "ExitCode"],
      ["a container that starts again in its pod", "OnFailure"],
    ])("returns the log of a member across %s, and ends it with the job", async (_title, restartPolicy) => {
      const directory = await mkdtemp(join(tmpdir(), "muster-log-"));
      const name = `again-${restartPolicy.toLowerCase()}`;
      // Each run waits until its output was read; the first one fails.
      const program = `cd ${directory}; read() { until [ -e $1 ]; do sleep 0.1; done; }
        if mkdir begun 2>/dev/null; then echo first; read first; echo last words; exit 137; fi
        echo second; read second; echo done`;
      const template = { spec: { containers: [{ name: "main", image: "node", command: ["sh", "-c", program] }] } };
      const worker = { replicas: 1, pool: "workers", restartPolicy, template };
      await world.create({
        apiVersion: "muster.dev/v1",
        kind: "Job",
        metadata: { name },
        spec: { replicaSpecs: { worker } },
      });
      const reported = followedLog(world, name, "worker-0", (line) => writeFile(join(directory, line), ""));
      expect(await reported).toEqual(["first\nlast words\n", "second\ndone\n"]);
      await world.untilCondition(name, "Succeeded");
      await world.untilNothingLeft(name);
      await rm(directory, { recursive: true });
    });

    it("is checked by us and by the API server before it is submitted, and creates nothing", async () => {
      const manifest = (name: string, container: object, more: object = {}): string => {
        const template = { spec: { containers: [{ name: "main", image: "node", ...container }] } };
        const spec = { replicaSpecs: { worker: { pool: "workers", template, ...more } } };
        return JSON.stringify({ apiVersion: "muster.dev/v1", kind: "Job", metadata: { name }, spec });
      };
      const problemsOf = async (manifestJson: string): Promise<readonly string[]> => {
        const { problems } = await world.jobs.checkJob({ manifestJson });
        return problems.map(({ field, reason }) => `${field}: ${reason}`);
      };
      const answers = (): Promise<boolean> =>
        world.jobs.listJobs({}).then(
          () => true,
          () => false,
        );
      await until("a replica answers for jobs", answers, { timeoutMs: 60_000 });
      expect(await problemsOf(manifest("checked", {}))).toEqual([]);
      expect(await world.get("checked")).toBeUndefined();
      const crowd = await world.jobs.checkJob({ manifestJson: manifest("checked", {}, { replicas: 500 }) });
      expect(crowd).toMatchObject({
        problems: [],
        warnings: [expect.stringMatching(/^it would wait: POOL_CAPACITY: pool workers has /)],
      });
      // The definition accepts this manifest, so the job-controller refuses it.
      const [unknown] = await problemsOf(manifest("checked", {}, { mainContainer: "side" }));
      expect(unknown).toMatch(/^spec\.replicaSpecs\.worker\.mainContainer: .*side/);
      // The definition refuses this manifest.
      const [negative] = await problemsOf(manifest("checked", {}, { replicas: -1 }));
      expect(negative).toMatch(/replicas/);
      const [unnamed] = await problemsOf(manifest("Not_A_Name", {}));
      expect(unnamed).toMatch(/name/);
      // The definition of a kind of another project refuses it, because the API server would drop unknown fields.
      const containers = [{ name: "pytorch", image: "node" }];
      const spec = { pytorchReplicaSpecs: { Worker: { replica: 2, template: { spec: { containers } } } } };
      const metadata = { name: "checked", annotations: { "muster.dev/pool": "workers" } };
      const foreign = { apiVersion: "kubeflow.org/v1", kind: "PyTorchJob", metadata, spec };
      const [misspelt] = await problemsOf(JSON.stringify(foreign));
      expect(misspelt).toMatch(/unknown field "spec\.pytorchReplicaSpecs\.Worker\.replica"/);
      expect(await world.get("checked")).toBeUndefined();
    });

    it.each([
      ["no JSON", "{", "manifest_json"],
      ["another kind", '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}', "kind"],
      ["no name", '{"apiVersion":"muster.dev/v1","kind":"Job","metadata":{}}', "metadata.name"],
      [
        "nothing to run",
        '{"apiVersion":"muster.dev/v1","kind":"Job","metadata":{"name":"a"},"spec":{}}',
        "spec.replicaSpecs",
      ],
    ])("refuses a manifest with %s, and names the field", async (_title, manifestJson, field) => {
      const refused = world.jobs.submitJob({ requestId: "r", manifestJson });
      await expect(refused).rejects.toMatchObject({ fault: { code: "invalid_request", field } });
    });
  });
}

/** Returns the whole log of a member as a follower reads it, from before its first pod until it is complete; one text per run. */
async function followedLog(
  { jobs }: JobWorld,
  name: string,
  component: string,
  onLine: (line: string) => Promise<void>,
): Promise<string[]> {
  const texts = new Map<string, string>();
  let [offset, run, complete] = [0, "", false];
  while (!complete) {
    const request = { key: { kind: "Job", name }, component, offset, run, waitMs: 5000 };
    const reply = await jobs.getJobLogs(request, { timeoutMs: 30_000 });
    ({ nextOffset: offset, run, complete } = reply);
    if (reply.chunk.length === 0) continue;
    const text = Buffer.from(reply.chunk).toString();
    texts.set(run, (texts.get(run) ?? "") + text);
    for (const line of text.trim().split("\n")) await onLine(line);
  }
  return [...texts.values()];
}
