import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { KubeError, makeKubeCalls, loadKube, type KubeCalls, type KubeObject } from "@muster/kube";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { API_SERVERS } from "./api-servers.ts";
import { installDefinition } from "./job-world.ts";

type Queue = KubeObject & { readonly spec: Readonly<Record<string, unknown>>; readonly status?: unknown };

const KUBECTL = [process.env["KUBEBUILDER_ASSETS"] ?? "", ...(process.env["PATH"] ?? "").split(":")]
  .map((directory) => join(directory, "kubectl"))
  .find((file) => existsSync(file));
if (KUBECTL === undefined && process.env["CI"] === "true") throw new Error("CI=true allows no skipped suite: kubectl");
const WITH = KUBECTL === undefined ? "(skipped: none in KUBEBUILDER_ASSETS or on the PATH)" : "";

const QUEUES = { apiVersion: "muster.dev/v1", plural: "queues" };
const queue = (name: string, spec: Queue["spec"]): Queue => ({
  apiVersion: "muster.dev/v1",
  kind: "Queue",
  metadata: { name },
  spec,
});
const quota = (resource: Readonly<Record<string, unknown>>) => ({ quotas: [{ pool: "gpu", resources: [resource] }] });
const selector = (requirement: Readonly<Record<string, unknown>>) => ({
  namespaceSelector: { matchExpressions: [requirement] },
});

const poolsOf = (count: number, resources: number) =>
  Array.from({ length: count }, (_pool, index) => ({
    pool: `pool-${index}`,
    resources: Array.from({ length: resources }, (_resource, at) => ({ name: `example.com/r-${at}`, nominal: 1 })),
  }));

const REFUSED: readonly [title: string, queue: Queue, message: string][] = [
  ["a long name", queue("a".repeat(64), {}), "63 characters at most"],
  ["itself as its parent", queue("a", { parent: "a" }), "cannot be its own parent"],
  ["a parent in upper case", queue("a", { parent: "Team" }), "spec.parent in body should match"],
  ["a negative weight", queue("a", { weight: -1 }), "should be greater than or equal to 0"],
  ["a weight of ten-thousandths", queue("a", { weight: 0.0005 }), "three decimal places at most"],
  ["a strategy that does not exist", queue("a", { strategy: "LIFO" }), "Unsupported value"],
  ["a stop policy that does not exist", queue("a", { stopPolicy: "Stop" }), "Unsupported value"],
  ["a priority of 64 bits", queue("a", { maxPriority: 2 ** 31 }), "int32"],
  ["an unknown policy of preemption", queue("a", { preemption: { reclaim: "Always" } }), "Unsupported value"],
  [
    "a priority of 64 bits to preempt",
    queue("a", { preemption: { whileBorrowing: { maxPriority: 2 ** 31 } } }),
    "int32",
  ],
  ["a time without a unit", queue("a", { minRunTime: "10" }), "minRunTime in body should match"],
  ["a pool without resources", queue("a", { quotas: [{ pool: "gpu", resources: [] }] }), "at least 1 items"],
  [
    "a pool twice",
    queue("a", {
      quotas: [...quota({ name: "cpu", nominal: 1 }).quotas, ...quota({ name: "memory", nominal: 1 }).quotas],
    }),
    "Duplicate value",
  ],
  ["a resource without an amount", queue("a", quota({ name: "cpu" })), "nominal: Required value"],
  ["a negative text", queue("a", quota({ name: "cpu", nominal: "-1" })), "nominal in body should match"],
  ["a negative number", queue("a", quota({ name: "cpu", nominal: -1 })), "should be greater than or equal to 0"],
  ["an unknown unit", queue("a", quota({ name: "cpu", nominal: 1, lendingLimit: "4 cores" })), "should match"],
  ["many pools", queue("a", { quotas: poolsOf(65, 1) }), "at most 64 items"],
  ["many resources", queue("a", { quotas: poolsOf(52, 5) }), "256 resources at most over all pools"],
  [
    "a long name of a pool",
    queue("a", { quotas: [{ pool: "a".repeat(64), resources: [{ name: "cpu", nominal: 1 }] }] }),
    "may not be more than 63",
  ],
  ["a long name of a resource", queue("a", quota({ name: "a".repeat(318), nominal: 1 })), "may not be more than 317"],
  [
    "a long key of a label",
    queue("a", { namespaceSelector: { matchLabels: { ["a".repeat(318)]: "" } } }),
    "keys have 317",
  ],
  ["no name of a resource", queue("a", quota({ name: "nvidia.com/", nominal: 1 })), "name in body should match"],
  ["no values to compare with", queue("a", selector({ key: "team", operator: "In" })), "In and NotIn need values"],
  [
    "values without a comparison",
    queue("a", selector({ key: "team", operator: "Exists", values: ["a"] })),
    "Exists and DoesNotExist have none",
  ],
];

for (const server of API_SERVERS) {
  describe.skipIf(server.skip)(`the definition of queues under ${server.title}`, { timeout: 120_000 }, () => {
    const stack = new AsyncDisposableStack();
    let calls: KubeCalls;
    let kubeconfig = "";

    beforeAll(async () => {
      const api = stack.use(await server.start());
      ({ kubeconfig } = api);
      calls = stack.use(makeKubeCalls(loadKube(api.kubeconfig)));
      await installDefinition(calls, "muster.dev_queues.yaml");
    }, 120_000);
    afterAll(() => stack.disposeAsync());

    it("accepts all fields, keeps them as written, and fills in defaults", async () => {
      const full = {
        parent: "company",
        weight: 0.057,
        quotas: [
          {
            pool: "gpu",
            resources: [
              { name: "nvidia.com/gpu", nominal: 8, borrowingLimit: "4", lendingLimit: 0 },
              { name: "memory", nominal: "1.5Ti" },
              { name: "cpu", nominal: "500m" },
            ],
          },
        ],
        namespaceSelector: {
          matchLabels: { team: "a" },
          matchExpressions: [
            { key: "stage", operator: "NotIn", values: ["test"] },
            { key: "example.com/batch", operator: "Exists" },
          ],
        },
        strategy: "StrictFIFO",
        stopPolicy: "Hold",
        maxPriority: -5,
        preemption: {
          ...{ reclaim: "Any", fairSharing: "Never", withinQueue: "LowerPriority" },
          whileBorrowing: { maxPriority: 5 },
        },
        minRunTime: "1h30m",
        permitNonPreemptible: true,
      };
      expect((await calls.create(QUEUES, queue("team-a", full))).spec).toEqual(full);
      const defaults = { weight: 1, strategy: "BestEffortFIFO", stopPolicy: "None", permitNonPreemptible: false };
      const none = { reclaim: "Never", fairSharing: "Never", withinQueue: "Never" };
      expect((await calls.create(QUEUES, queue("company", { preemption: {} }))).spec).toEqual({
        ...defaults,
        preemption: none,
      });
    });

    it("accepts as many pools and resources as fit into the log", async () => {
      expect((await calls.create(QUEUES, queue("large", { quotas: poolsOf(64, 4) }))).spec).toMatchObject({
        quotas: { length: 64 },
      });
    });

    it("keeps a status only if its subresource is written", async () => {
      const status = {
        pending: 3,
        reason: "ADMITTING",
        pools: [{ pool: "gpu", resources: [{ name: "cpu", used: "2" }] }],
      };
      const created = await calls.create(QUEUES, { ...queue("shown", {}), status });
      expect(created.status).toBeUndefined();
      const patched = await calls.patch<Queue>(
        QUEUES,
        "shown",
        { kind: "merge", body: { status, spec: { weight: 7 } } },
        { subresource: "status" },
      );
      expect(patched.status).toEqual(status);
      expect(patched.spec).toMatchObject({ weight: 1 });
    });

    it("refuses an unknown field if the client requests it, as kubectl does", async () => {
      const query = { fieldValidation: "Strict" };
      const error = await refusalOf(calls.create(QUEUES, queue("unknown", { quota: [] }), { query }));
      expect(error).toContain('unknown field "spec.quota"');
    });

    it.skipIf(KUBECTL === undefined)(`has columns and short names for kubectl ${WITH}`, async () => {
      const cache = await mkdtemp(join(tmpdir(), "kubectl-"));
      stack.defer(() => rm(cache, { recursive: true }));
      const env = { KUBECACHEDIR: cache, PATH: "/usr/bin:/bin", KUBECONFIG: kubeconfig };
      const kubectl = async (...args: string[]) =>
        (await promisify(execFile)(KUBECTL ?? "", args, { env })).stdout
          .split("\n")
          .map((line) => line.split(/\s{2,}/));
      await calls.create(QUEUES, queue("columns", { parent: "company", weight: 0.5 }));
      const status = { pending: 3, admitted: 0, reason: "HELD", message: "spec.stopPolicy is Hold", share: "0.25" };
      await calls.patch(QUEUES, "columns", { kind: "merge", body: { status } }, { subresource: "status" });
      const [heading, row] = await kubectl("get", "mq", "columns");
      expect(heading).toEqual(["NAME", "PARENT", "PENDING", "ADMITTED", "REASON", "AGE"]);
      expect(row?.slice(0, 5)).toEqual(["columns", "company", "3", "0", "HELD"]);
      const [, wide] = await kubectl("get", "queues", "columns", "-o", "wide");
      expect(wide?.slice(6)).toEqual(["0.5", "0.25", "spec.stopPolicy is Hold"]);
      expect((await kubectl("explain", "mq.spec.quotas.resources")).flat().join(" ")).toContain("borrowingLimit");
    });

    it.each(REFUSED)("refuses %s", async (_title, manifest, message) => {
      expect(await refusalOf(calls.create(QUEUES, manifest))).toContain(message);
    });
  });
}

async function refusalOf(call: Promise<unknown>): Promise<string> {
  const error = await call.then(
    () => undefined,
    (refusal: unknown) => refusal,
  );
  return error instanceof KubeError ? error.message : `accepted: ${String(error)}`;
}
