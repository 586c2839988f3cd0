import type { V1Taint } from "@kubernetes/client-node";
import { until } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { API_SERVERS } from "./api-servers.ts";
import { openJobWorld, type JobWorld, type TestJob } from "./job-world.ts";

const NODES = { apiVersion: "v1", plural: "nodes" };
const PODS = { apiVersion: "v1", plural: "pods" };
const GPU: V1Taint = { key: "example.com/gpu", value: "present", effect: "NoSchedule" };

const CONTAINER = { name: "main", image: "node", command: ["sleep", "600"] };

/** Builds a job with workers that runs until it is cancelled, on nodes that these fields of its template accept. */
function job(
  name: string,
  fields: Readonly<Record<string, unknown>>,
  more: { replicas?: number; annotations?: Record<string, string> } = {},
): TestJob {
  const { replicas = 1, annotations = {} } = more;
  const template = { spec: { containers: [CONTAINER], ...fields } };
  return {
    apiVersion: "muster.dev/v1",
    kind: "Job",
    metadata: { name, annotations },
    spec: { replicaSpecs: { worker: { replicas, pool: "workers", template } } },
  };
}

for (const server of API_SERVERS) {
  describe.skipIf(server.skip)(
    `jobs on the nodes that they accept, under ${server.title}`,
    { timeout: 240_000 },
    () => {
      let world: JobWorld;

      beforeAll(async () => {
        world = await openJobWorld(await server.start(), { workers: 3 });
        await world.startController({ JOB_NODE_LOST_MS: "500" });
      }, 240_000);

      afterAll(() => world[Symbol.asyncDispose]());

      const patchNode = (node: string, body: object) => world.calls.patch(NODES, node, { kind: "merge", body });
      const nodeOf = async (name: string): Promise<string | undefined> => {
        await world.untilCondition(name, "Running");
        return (await world.pods(name))[0]?.spec?.nodeName;
      };
      const cancel = (name: string) => world.jobs.cancelJob({ requestId: name, key: { name } });
      const nodes = async (): Promise<readonly string[]> => {
        const { machines } = await world.ledger.listMachines({ pool: "workers" });
        return machines.map(({ node }) => node);
      };

      it("run on labelled and on tainted nodes, and no other job gets these machines", async () => {
        const [plain = "", fast = "", tainted = ""] = await nodes();
        await patchNode(fast, { metadata: { labels: { disk: "ssd" } } });
        await patchNode(tainted, { metadata: { labels: { disk: "ssd" } }, spec: { taints: [GPU] } });
        const isTainted = async (): Promise<boolean> => {
          const { machines } = await world.ledger.listMachines({ pool: "workers" });
          return machines.some(({ node, standing }) => node === tainted && standing === "CORDONED");
        };
        await until("the ledger knows the taint", isTainted);

        const tolerations = [{ key: GPU.key, operator: "Exists" }];
        await world.create(job("fast", { nodeSelector: { disk: "ssd" } }));
        expect(await nodeOf("fast")).toBe(fast);
        await world.create(job("tolerant", { nodeSelector: { disk: "ssd" }, tolerations }));
        expect(await nodeOf("tolerant")).toBe(tainted);

        await world.create(job("more", { nodeSelector: { disk: "ssd" } }));
        const waits = async (): Promise<string | false> => {
          const conditions = (await world.get("more"))?.status?.conditions ?? [];
          const reserved = conditions.find(({ type }) => type === "MachinesReserved");
          return reserved?.status === "False" && (reserved.message ?? "");
        };
        expect(await until("the third job waits", waits, { timeoutMs: 60_000 })).toContain("disk=ssd");
        await world.create(job("anywhere", {}));
        expect(await nodeOf("anywhere")).toBe(plain);
        await cancel("fast");
        expect(await nodeOf("more")).toBe(fast);
        for (const name of ["tolerant", "more", "anywhere"]) await cancel(name);
        await world.untilNothingLeft("more");
      });

      it("have all machines, including replacements, in one rack", async () => {
        const [other = "", one = "", lost = ""] = await nodes();
        await patchNode(other, { metadata: { labels: { rack: "a" } }, spec: { taints: null } });
        for (const node of [one, lost])
          await patchNode(node, { metadata: { labels: { rack: "b" } }, spec: { taints: null } });
        const inRack = { component: "c", pool: "workers" };
        const needs = [inRack, { ...inRack, component: "d" }];
        const isKnown = (): Promise<boolean> =>
          world.ledger.checkReservation({ owner: { kind: "test", id: "rack" }, needs, topology: "rack" }).then(
            ({ because }) => because === undefined,
            () => false,
          );
        await until("the ledger knows the racks", isKnown, { timeoutMs: 60_000 });
        await world.create(job("close", {}, { replicas: 2, annotations: { "muster.dev/topology": "rack" } }));
        await world.untilCondition("close", "Running");
        const placed = async () => (await world.pods("close")).map((pod) => pod.spec?.nodeName ?? "").sort();
        expect(await placed()).toEqual([one, lost].sort());

        const member = (await world.pods("close")).find((pod) => pod.spec?.nodeName === lost)?.metadata;
        await patchNode(lost, { spec: { unschedulable: true } });
        await world.calls.delete({ ...PODS, namespace: member?.namespace ?? "" }, member?.name ?? "");
        const waits = async (): Promise<boolean> => {
          const { reservations } = await world.ledger.listReservations({ ownerKind: "job" });
          return reservations.some(({ because }) => because?.nodes.includes("rack=b") === true);
        };
        await until("the member waits for another machine of its rack", waits, { timeoutMs: 60_000 });
        await patchNode(other, { metadata: { labels: { rack: "b" } } });
        await until("the member runs there", async () => (await placed()).join() === [one, other].sort().join(), {
          timeoutMs: 60_000,
        });
        await cancel("close");
        await world.untilNothingLeft("close");
        await patchNode(lost, { spec: { unschedulable: null } });
      });

      it("that no node of the pool accepts are refused with the missing labels", async () => {
        const affinity = {
          nodeAffinity: {
            requiredDuringSchedulingIgnoredDuringExecution: {
              nodeSelectorTerms: [{ matchExpressions: [{ key: "zone", operator: "In", values: ["a", "b"] }] }],
            },
          },
        };
        await world.create(job("nowhere", { affinity }));
        const refusal = async (): Promise<string | false> => {
          const conditions = (await world.get("nowhere"))?.status?.conditions ?? [];
          const reserved = conditions.find(({ type }) => type === "MachinesReserved");
          return reserved?.reason === "POOL_CAPACITY" && (reserved.message ?? "");
        };
        const text = await until("the job is refused", refusal, { timeoutMs: 60_000 });
        expect(text).toContain("zone in (a, b)");
        const [node = ""] = await nodes();
        await patchNode(node, { metadata: { labels: { zone: "b" } } });
        expect(await nodeOf("nowhere")).toBe(node);
        await cancel("nowhere");
        await world.untilNothingLeft("nowhere");
      });

      it("are refused with the limit when their selections are too long", async () => {
        const values = Array.from({ length: 300 }, (_, index) => `${index}`.padStart(63, "v"));
        const nodeSelectorTerms = [{ matchExpressions: [{ key: "zone", operator: "In", values }] }];
        const required = { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms } };
        await world.create(job("many", { affinity: { nodeAffinity: required } }));
        const refusal = async (): Promise<string | false> => {
          const conditions = (await world.get("many"))?.status?.conditions ?? [];
          const reserved = conditions.find(({ type }) => type === "MachinesReserved");
          return reserved?.reason === "LIMIT_EXCEEDED" && (reserved.message ?? "");
        };
        const text = await until("the job is refused", refusal, { timeoutMs: 60_000 });
        expect(text).toContain("characters in the node selections of one request is over its limit of 16000");
        await cancel("many");
        await world.untilNothingLeft("many");
      });
    },
  );
}
