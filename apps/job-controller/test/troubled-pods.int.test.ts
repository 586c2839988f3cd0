import type { V1Node } from "@kubernetes/client-node";
import { until } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { API_SERVERS } from "./api-servers.ts";
import { openJobWorld, type JobWorld, type TestJob } from "./job-world.ts";

const NODES = { apiVersion: "v1", plural: "nodes" };
const SYSTEM_PODS = { apiVersion: "v1", plural: "pods", namespace: "kube-system" };
const GUARD = { guard: "yes" };
/** Kubernetes places no pod of the template beside a guard. The ledger counts guards as overhead, and grants their nodes. */
const KEPT_OFF = {
  affinity: {
    podAntiAffinity: {
      requiredDuringSchedulingIgnoredDuringExecution: [
        { topologyKey: "kubernetes.io/hostname", labelSelector: { matchLabels: GUARD }, namespaceSelector: {} },
      ],
    },
  },
};
const SECRETS = { apiVersion: "v1", plural: "secrets", namespace: "default" };

for (const server of API_SERVERS) {
  describe.skipIf(server.skip)(`pods in trouble under ${server.title}`, { timeout: 240_000 }, () => {
    let world: JobWorld;

    beforeAll(async () => {
      world = await openJobWorld(await server.start(), { workers: 2 });
      await world.startController({
        JOB_EXPLAIN_EVERY_MS: "1000",
        JOB_SYNC_PERIOD_MS: "1000",
        JOB_NODE_LOST_MS: "500",
      });
    }, 240_000);

    afterAll(() => world[Symbol.asyncDispose]());

    /** Starts a guard on each node. The returned function deletes them. */
    const occupyNodes = async (): Promise<() => Promise<void>> => {
      const { items } = await world.calls.list<V1Node>(NODES);
      const names = items.map(({ metadata }) => `guard-${metadata?.name}`);
      for (const [index, { metadata }] of items.entries())
        await world.calls.create(SYSTEM_PODS, {
          apiVersion: "v1",
          kind: "Pod",
          metadata: { name: names[index] ?? "", labels: GUARD },
          spec: {
            nodeName: metadata?.name ?? "",
            terminationGracePeriodSeconds: 0,
            containers: [{ name: "main", image: "node", command: ["sleep", "600"] }],
          },
        });
      return async () => {
        for (const name of names) await world.calls.delete(SYSTEM_PODS, name);
      };
    };

    it("are reported while no machine accepts them, and no longer once one does", async () => {
      const freeNodes = await occupyNodes();
      await world.create(job("picky", ["true"], KEPT_OFF));
      const waiting = await world.untilCondition("picky", "PodsWaiting");
      const condition = waiting.status?.conditions?.find(({ type }) => type === "PodsWaiting");
      expect(condition?.reason).toBe("Unschedulable");
      expect(condition?.message).toMatch(/^pod picky-worker-0: Unschedulable: 0\/2 nodes are available/);
      expect(waiting.status).toMatchObject({ state: "Starting", message: condition?.message });
      const { job: shown } = await world.jobs.getJob({ key: { name: "picky" } });
      expect(shown?.waitingBecause).toBe(condition?.message);
      expect(shown?.members[0]?.message).toMatch(/^Unschedulable: /);

      await freeNodes();
      const done = await world.untilCondition("picky", "Succeeded");
      expect(done.status?.conditions?.map(({ type }) => type)).not.toContain("PodsWaiting");
      await world.untilNothingLeft("picky");
    });

    it("get another machine if theirs was cordoned before they were placed", async () => {
      const freeNodes = await occupyNodes();
      await world.create(job("shut-out", ["true"], KEPT_OFF));
      await world.untilCondition("shut-out", "PodsWaiting");
      const { reservations } = await world.ledger.listReservations({ ownerKind: "job" });
      const own = reservations.flatMap(({ machines }) => machines).at(0)?.node ?? "";
      await world.calls.patch(NODES, own, { kind: "merge", body: { spec: { unschedulable: true } } });
      await freeNodes();
      const done = await world.untilCondition("shut-out", "Succeeded");
      expect(done.status).toMatchObject({ restarts: 0, replaced: ["worker-0"] });
      expect(done.status?.conditions?.map(({ type }) => type)).not.toContain("PodsWaiting");
      await world.calls.patch(NODES, own, { kind: "merge", body: { spec: { unschedulable: null } } });
      await world.untilNothingLeft("shut-out");
    });

    it("are reported while a secret that they need is missing", async () => {
      const valueFrom = { secretKeyRef: { name: "licence", key: "text" } };
      const command = ["sh", "-c", "test $LICENCE = paid"];
      await world.create(job("licensed", command, {}, { env: [{ name: "LICENCE", valueFrom }] }));
      const waiting = await world.untilCondition("licensed", "PodsWaiting");
      const condition = waiting.status?.conditions?.find(({ type }) => type === "PodsWaiting");
      expect(condition).toMatchObject({ reason: "CreateContainerConfigError" });
      expect(condition?.message).toContain("licence");

      const data = { text: Buffer.from("paid").toString("base64") };
      await world.calls.create(SECRETS, { apiVersion: "v1", kind: "Secret", metadata: { name: "licence" }, data });
      await world.untilCondition("licensed", "Succeeded");
      await world.untilNothingLeft("licensed");
    });

    it("are reported with the kubelet's message if their command does not exist", async () => {
      await world.create(job("missing", ["no-such-command"]));
      const failed = await world.untilCondition("missing", "Failed");
      const message = failed.status?.message ?? "";
      expect(message).toMatch(/^pod missing-worker-0 failed with exit code 128: StartError: .*no-such-command/);
      const shown = await until("the member has failed too", async () => {
        const { job: seen } = await world.jobs.getJob({ key: { name: "missing" } });
        return seen?.members[0]?.state === "FAILED" && seen.members[0];
      });
      expect(shown.message).toMatch(/^exit code 128: StartError: /);
      await world.untilNothingLeft("missing");
    });
  });
}

function job(name: string, command: readonly string[], pod: object = {}, container: object = {}): TestJob {
  const template = { spec: { ...pod, containers: [{ name: "main", image: "node", command, ...container }] } };
  const worker = { replicas: 1, pool: "workers", restartPolicy: "Never", template };
  return { apiVersion: "muster.dev/v1", kind: "Job", metadata: { name }, spec: { replicaSpecs: { worker } } };
}
