import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { ApiException, CustomObjectsApi, KubeConfig } from "@kubernetes/client-node";
import { until, type TestApiServer } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parse } from "yaml";
import { API_SERVERS } from "./api-servers.ts";
import { buildJobManifest, buildReplicaManifest, buildTemplateManifest } from "./manifests.ts";

type Manifest = Readonly<Record<string, unknown>>;

const JOBS = { group: "muster.dev", version: "v1", namespace: "default", plural: "jobs" };
const CRD = new URL("../../../deploy/crds/muster.dev_jobs.yaml", import.meta.url);

const execute = promisify(execFile);
const KUBECTL = [process.env["KUBEBUILDER_ASSETS"] ?? "", ...(process.env["PATH"] ?? "").split(":")]
  .map((directory) => join(directory, "kubectl"))
  .find((file) => existsSync(file));
if (KUBECTL === undefined && process.env["CI"] === "true") throw new Error("CI=true allows no skipped suite: kubectl");

const worker = (more: Manifest) => ({ replicaSpecs: { worker: buildReplicaManifest(more) } });
const code = { action: "FailJob", onExitCodes: { values: [3] } };

/** Manifests that the API server refuses at creation, with a part of the reason. */
const REFUSED: readonly [title: string, manifest: Manifest, message: string][] = [
  ["no replica type", buildJobManifest("a", { replicaSpecs: {} }), "should have at least 1 properties"],
  [
    "no replica at all",
    buildJobManifest("a", worker({ replicas: 0 })),
    "at least one replica type needs at least one replica",
  ],
  [
    "a thousand and one replicas",
    buildJobManifest("a", { replicaSpecs: { a: buildReplicaManifest({ replicas: 1000 }), b: buildReplicaManifest() } }),
    "1000 replicas at most, all types together",
  ],
  ["fewer than no replicas", buildJobManifest("a", worker({ replicas: -1 })), "should be greater than or equal to 0"],
  [
    "a type in upper case",
    buildJobManifest("a", { replicaSpecs: { Worker: buildReplicaManifest() } }),
    "a replica type is a name of 40 lower case letters",
  ],
  ["a name with a dot", buildJobManifest("a.b"), "metadata.name is the name of a service"],
  ["a name that begins with a digit", buildJobManifest("1a"), "metadata.name is the name of a service"],
  ["a name that leaves no room", buildJobManifest("a".repeat(55)), "metadata.name is too long"],
  [
    "a dependency on a missing type",
    buildJobManifest("a", worker({ dependsOn: [{ type: "chief" }] })),
    "dependsOn has to name a replica type of this job",
  ],
  [
    "a dependency on itself",
    buildJobManifest("a", worker({ dependsOn: [{ type: "worker" }] })),
    "a replica type cannot depend on itself",
  ],
  [
    "two types that wait for each other",
    buildJobManifest("a", {
      replicaSpecs: {
        a: buildReplicaManifest({ dependsOn: [{ type: "b" }] }),
        b: buildReplicaManifest({ dependsOn: [{ type: "a" }] }),
      },
    }),
    "two replica types cannot depend on each other",
  ],
  [
    "more replicas than elastic allows",
    buildJobManifest("a", worker({ elastic: { minReplicas: 1, maxReplicas: 1 } })),
    "elastic needs minReplicas <= replicas <= maxReplicas",
  ],
  [
    "fewer replicas than elastic allows",
    buildJobManifest("a", worker({ elastic: { minReplicas: 3, maxReplicas: 4 } })),
    "elastic needs minReplicas <= replicas <= maxReplicas",
  ],
  [
    "a main container that is not there",
    buildJobManifest("a", worker({ mainContainer: "other" })),
    "mainContainer has to name a container of the template",
  ],
  [
    "a template with a machine",
    buildJobManifest("a", worker({ template: buildTemplateManifest({ nodeName: "n" }) })),
    "nodeName cannot be set",
  ],
  [
    "a template without containers",
    buildJobManifest("a", worker({ template: { spec: { containers: [] } } })),
    "should have at least 1 items",
  ],
  [
    "a container without an image",
    buildJobManifest("a", worker({ template: { spec: { containers: [{ name: "main" }] } } })),
    "image: Required value",
  ],
  ["an unknown restart policy", buildJobManifest("a", worker({ restartPolicy: "Sometimes" })), "Unsupported value"],
  [
    "a back-off limit below zero",
    buildJobManifest("a", { ...worker({}), runPolicy: { backoffLimit: -1 } }),
    "should be greater than or equal to 0",
  ],
  [
    "a manager without a domain",
    buildJobManifest("a", { ...worker({}), runPolicy: { managedBy: "me" } }),
    "managedBy is a name with a domain",
  ],
  [
    "an exit code that no process has",
    buildJobManifest("a", { ...worker({}), exitCodes: { retryable: [256] } }),
    "should be less than or equal to 255",
  ],
  [
    "exit code 0 as a failure",
    buildJobManifest("a", { ...worker({}), exitCodes: { permanent: [0] } }),
    "should be greater than or equal to 1",
  ],
  [
    "an exit code that is both",
    buildJobManifest("a", { ...worker({}), exitCodes: { retryable: [3], permanent: [3] } }),
    "an exit code cannot be both retryable and permanent",
  ],
  [
    "a failure rule about nothing",
    buildJobManifest("a", { ...worker({}), failurePolicy: { rules: [{ action: "FailJob" }] } }),
    "exactly one of onExitCodes and onPodCondition",
  ],
  [
    "a failure rule about exit code 0",
    buildJobManifest("a", {
      ...worker({}),
      failurePolicy: { rules: [{ action: "FailJob", onExitCodes: { values: [0] } }] },
    }),
    "exit code 0 is no failure",
  ],
  [
    "a failure rule about an unknown type",
    buildJobManifest("a", { ...worker({}), failurePolicy: { rules: [{ ...code, replicaTypes: ["ps"] }] } }),
    "failurePolicy has to name replica types of this job",
  ],
  ...["OnFailure", "Always"].map((restartPolicy): (typeof REFUSED)[number] => [
    `a failure rule about exit codes of pods with restartPolicy ${restartPolicy}`,
    buildJobManifest("a", { ...worker({ restartPolicy }), failurePolicy: { rules: [code] } }),
    "onExitCodes of a failure rule can be judged only of types whose containers the kubelet does not restart",
  ]),
  [
    "a success rule about an unknown type",
    buildJobManifest("a", { ...worker({}), successPolicy: { rules: [{ allOf: [{ type: "ps" }] }] } }),
    "successPolicy has to name replica types of this job",
  ],
  [
    "a success rule that says two things",
    buildJobManifest("a", {
      ...worker({}),
      successPolicy: { rules: [{ allOf: [{ type: "worker", complete: "Any", indexes: [0] }] }] },
    }),
    "needs one of indexes and complete: Any",
  ],
];

const image = (name: string) => buildTemplateManifest({ containers: [{ name: "main", image: name }] });

/** Changes that the API server refuses while the job is not suspended, with a part of the reason. */
const FROZEN: readonly [title: string, spec: Manifest, message: string][] = [
  ["the template", worker({ template: image("other") }), "a template can be changed only while the job is suspended"],
  ["the pool", worker({ pool: "gpu" }), "a pool can be changed only while the job is suspended"],
  ["a pool to none", worker({ pool: undefined }), "a pool can be changed only while the job is suspended"],
  [
    "one type more",
    { replicaSpecs: { worker: buildReplicaManifest(), ps: buildReplicaManifest() } },
    "replica types can be added or removed only while the job is suspended",
  ],
  [
    "another type instead",
    { replicaSpecs: { ps: buildReplicaManifest() } },
    "replica types can be added or removed only while the job is suspended",
  ],
];

describe.each(API_SERVERS)("the definition of Job on $title", ({ skip, start }) => {
  describe.skipIf(skip)("", () => {
    let server: TestApiServer;
    let jobs: CustomObjectsApi;
    let made = 0;
    beforeAll(async () => {
      server = await start();
      const config = new KubeConfig();
      config.loadFromFile(server.kubeconfig);
      jobs = config.makeApiClient(CustomObjectsApi);
      // The definition is read as plain data, because the typed client drops fields that its model renames, such as the rules.
      const definitions = { group: "apiextensions.k8s.io", version: "v1", plural: "customresourcedefinitions" };
      await jobs.createClusterCustomObject({ ...definitions, body: parse(await readFile(CRD, "utf8")) as object });
      await until("jobs are served", () =>
        jobs.listNamespacedCustomObject(JOBS).then(
          () => true,
          () => false,
        ),
      );
    });
    afterAll(() => server[Symbol.asyncDispose]());

    const create = (body: Manifest, dryRun?: string) =>
      jobs.createNamespacedCustomObject({
        ...JOBS,
        body,
        ...(dryRun !== undefined && { dryRun }),
      }) as Promise<Manifest>;

    it.each(REFUSED)("refuses %s", async (_title, manifest, message) => {
      const error = await create(manifest, "All").then(() => "it was taken", messageOf);
      expect(error).toContain(message);
    });

    it.each(FROZEN)(
      "refuses to change %s of a job that is not suspended, and takes it while it is",
      async (_title, spec, message) => {
        const name = `frozen-${(made += 1)}`;
        await create(buildJobManifest(name));
        const change = async (suspend: boolean, next: Manifest) => {
          const { metadata } = (await jobs.getNamespacedCustomObject({ ...JOBS, name })) as Manifest;
          const body = { ...buildJobManifest(name, { ...next, runPolicy: { suspend } }), metadata };
          return jobs.replaceNamespacedCustomObject({ ...JOBS, name, body }).then(() => "it was taken", messageOf);
        };
        expect(await change(false, spec)).toContain(message);
        expect(await change(true, buildJobManifest(name)["spec"] as Manifest)).toBe("it was taken");
        expect(await change(true, spec)).toBe("it was taken");
      },
    );

    it("fills in omitted fields, so that kubectl shows them", async () => {
      const template = buildTemplateManifest();
      const made = await create(buildJobManifest("defaults", { replicaSpecs: { worker: { template } } }), "All");
      expect(made["spec"]).toEqual({
        replicaSpecs: { worker: { replicas: 1, restartPolicy: "Never", pool: "", dependsOn: [], template } },
        runPolicy: { suspend: false, backoffLimit: 6, cleanPodPolicy: "Running" },
      });
    });

    it("accepts a failure rule about exit codes beside a type to which it does not apply", async () => {
      const replicaSpecs = { worker: buildReplicaManifest(), ps: buildReplicaManifest({ restartPolicy: "Always" }) };
      const failurePolicy = { rules: [{ ...code, replicaTypes: ["worker"] }] };
      const taken = await create(buildJobManifest("beside", { replicaSpecs, failurePolicy }), "All");
      expect(taken["spec"]).toMatchObject({ failurePolicy });
    });

    it("stores a template unchanged", async () => {
      const port = { name: "http", containerPort: 80, protocol: "TCP" };
      const resources = { requests: { cpu: 1, memory: "1Gi" }, limits: { "nvidia.com/gpu": 1 } };
      const template = {
        metadata: { labels: { a: "b" }, annotations: { c: "d" } },
        spec: {
          containers: [{ name: "main", image: "i", ports: [port], resources, env: [{ name: "A", value: "$(B)" }] }],
          volumes: [{ name: "v", emptyDir: {} }],
          tolerations: [{ key: "k", operator: "Exists" }],
          securityContext: { runAsNonRoot: true },
        },
      };
      const made = await create(buildJobManifest("template", worker({ template })), "All");
      expect(made["spec"]).toMatchObject(worker({ template }));
    });

    it("refuses another manager for a job that has one", async () => {
      await create(buildJobManifest("managed", { runPolicy: { managedBy: "kueue.x-k8s.io/multikueue" } }));
      const body = [{ op: "remove", path: "/spec/runPolicy/managedBy" }];
      const error = await jobs
        .patchNamespacedCustomObject({ ...JOBS, name: "managed", body })
        .then(() => "it was taken", messageOf);
      expect(error).toContain("managedBy cannot be changed");
    });

    describe.skipIf(KUBECTL === undefined)(
      KUBECTL === undefined ? "with kubectl (skipped: none in KUBEBUILDER_ASSETS or on the PATH)" : "with kubectl",
      () => {
        let cache = "";
        beforeAll(async () => {
          cache = await mkdtemp(join(tmpdir(), "kubectl-"));
        });
        afterAll(() => rm(cache, { recursive: true }));

        const kubectl = async (...args: string[]) => {
          const env = { KUBECACHEDIR: cache, PATH: "/usr/bin:/bin", KUBECONFIG: server.kubeconfig };
          return (await execute(KUBECTL ?? "", args, { env })).stdout;
        };

        it("shows the progress of a job, by its short name", async () => {
          await create(buildJobManifest("shown"));
          const status = { state: "Running", completions: "1/2", restarts: 3, message: "every pod is running" };
          const patch = JSON.stringify({ status });
          await kubectl("patch", "mj", "shown", "--subresource=status", "--type=merge", `--patch=${patch}`);
          const [heading, row] = (await kubectl("get", "mj", "shown")).split("\n");
          expect(heading?.split(/\s+/)).toEqual(["NAME", "STATE", "SUCCEEDED/TOTAL", "FAILURES", "AGE"]);
          expect(row?.split(/\s+/).slice(0, 4)).toEqual(["shown", "Running", "1/2", "3"]);
          expect(await kubectl("get", "mj", "shown", "-o", "wide")).toContain("every pod is running");
          expect(await kubectl("describe", "mjob", "shown")).toContain("Backoff Limit:");
        });

        it("explains its fields", async () => {
          expect(await kubectl("explain", "jobs.muster.dev")).toContain("A gang of pods");
          expect(await kubectl("explain", "jobs.muster.dev.spec.runPolicy.backoffLimit")).toContain(
            "FIELD: backoffLimit",
          );
          expect(await kubectl("explain", "jobs.muster.dev.spec.replicaSpecs.elastic")).toContain("minReplicas");
        });
      },
    );
  });
});

/** Returns the message of the API server, which client-node leaves as text in the body. */
function messageOf(error: unknown): string {
  if (!(error instanceof ApiException) || typeof error.body !== "string") return String(error);
  return (JSON.parse(error.body) as { message: string }).message;
}
