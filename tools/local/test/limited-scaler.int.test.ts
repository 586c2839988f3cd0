import { mkdtemp, mkdtempDisposable, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { V1Node } from "@kubernetes/client-node";
import { attachNodes } from "@muster/devcluster";
import { makeKubeCalls, loadKube } from "@muster/kube";
import { muster } from "@muster/proto";
import { startKubeApiServer, findKubeAssets, until } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { stringify } from "yaml";
import { ELASTIC, INTERVALS } from "../src/elastic.ts";
import { type LimitedWorld, startLimitedWorld } from "./limited-world.ts";
import { type MachineMaker, startClusterApi, startKarpenter } from "./machine-makers.ts";
import { grantAccess } from "../src/cluster-access.ts";

const FIXTURES = process.env["MUSTER_CRD_FIXTURES"];
const assets = findKubeAssets();
const missing =
  FIXTURES === undefined ? "MUSTER_CRD_FIXTURES names no folder" : assets.found ? undefined : assets.reason;
const PODS = { apiVersion: "v1", plural: "pods", namespace: "default" };
const NODES = { apiVersion: "v1", plural: "nodes" };
const PATIENCE = { timeoutMs: 120_000, everyMs: 100 };

const MAKERS = [
  { name: "karpenter", start: startKarpenter },
  { name: "cluster-api", start: startClusterApi },
];

for (const { name, start } of MAKERS) {
  const title = `the node-scaler with only its rights for ${name}, on a real kube-apiserver`;
  describe.skipIf(missing !== undefined)(`${title}${missing === undefined ? "" : ` (skipped: ${missing})`}`, () => {
    const running = new AsyncDisposableStack();
    let world: LimitedWorld;
    let maker: MachineMaker;
    beforeAll(async () => {
      const directory = await mkdtemp(join(tmpdir(), "muster-limited-"));
      running.defer(() => rm(directory, { recursive: true, force: true }));
      const server = running.use(await startKubeApiServer());
      const access = { clientCa: server.kubeletClientCa };
      const { kubeconfig } = server;
      running.use(await attachNodes({ kubeconfig, pools: [{ name: "drivers", nodes: 1 }], access }));
      maker = running.use(await start(server, FIXTURES ?? ""));
      const file = join(directory, "pools.yaml");
      const standby = [{ instanceType: "small", count: 1 }];
      const pools = ELASTIC.pools.map((pool) => ({ ...pool, provider: "made", standby }));
      await writeFile(file, stringify({ providers: { made: maker.provider }, pools }));
      const env = { ...INTERVALS, NODE_SCALER_FILE: file };
      const rights = [`node-scaler-${name}.yaml`];
      world = running.use(await startLimitedWorld(kubeconfig, { throwaway: true, rights, env }));
    }, 180_000);
    afterAll(() => running.disposeAsync(), 120_000);

    const available = async () => {
      const { nodes } = await world.nodes.listNodes({});
      return nodes.find(({ phase }) => phase === muster.node.v1.NodePhase.NODE_PHASE_AVAILABLE);
    };

    it("creates a node and ends it: cordons it, evicts its pods, and deletes it", { timeout: 600_000 }, async () => {
      const first = await until("a standby node exists", available, PATIENCE);
      const node = first.kubernetesNode;
      await world.calls.create(PODS, podOn(node));
      await until("the pod on it runs", async () => (await phaseOf(world, "guest")) === "Running", PATIENCE);
      await world.nodes.terminateNode({ requestId: "end", name: first.name });
      await until("the pod was evicted", async () => (await phaseOf(world, "guest")) !== "Running", PATIENCE);
      await until("the node is gone", async () => !(await nodeNames(world)).includes(node), PATIENCE);
      const next = await until("another standby node exists", available, PATIENCE);
      expect(next.kubernetesNode).not.toBe(node);
      expect(await maker.requested()).toBeGreaterThanOrEqual(1);
      expect(await world.refusals()).toEqual([]);
    });
  });
}

describe.skipIf(!assets.found)(
  `the rights for ec2 on a real kube-apiserver${assets.found ? "" : ` (skipped: ${assets.reason})`}`,
  () => {
    it("let the node-scaler create a bootstrap token, and read no secret", { timeout: 600_000 }, async () => {
      await using server = await startKubeApiServer();
      await using directory = await mkdtempDisposable(join(tmpdir(), "muster-limited-"));
      const { files: rights } = await grantAccess(server.kubeconfig, directory.path, {
        more: ["node-scaler-ec2.yaml"],
      });
      await using calls = makeKubeCalls(loadKube(rights.get("node-scaler")));
      const secrets = { apiVersion: "v1", plural: "secrets", namespace: "kube-system" };
      const metadata = { name: "bootstrap-token-abcdef", namespace: secrets.namespace };
      await calls.create(secrets, { apiVersion: "v1", kind: "Secret", metadata });
      await expect(calls.get(secrets, metadata.name)).rejects.toMatchObject({ code: 403 });
    });
  },
);

function podOn(nodeName: string) {
  const command = ["node", "-e", `process.once("SIGTERM", () => process.exit(0)); setInterval(() => {}, 1000);`];
  const containers = [{ name: "main", image: "node:24-bookworm-slim", imagePullPolicy: "IfNotPresent", command }];
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "guest", namespace: PODS.namespace },
    spec: { nodeName, terminationGracePeriodSeconds: 2, restartPolicy: "Never", containers },
  };
}

/** The phase of the pod; undefined where it does not exist. */
async function phaseOf({ calls }: LimitedWorld, name: string): Promise<string | undefined> {
  const { items } = await calls.list<{ metadata?: { name?: string }; status?: { phase?: string } }>(PODS);
  return items.find(({ metadata }) => metadata?.name === name)?.status?.phase;
}

async function nodeNames({ calls }: LimitedWorld): Promise<readonly string[]> {
  const { items } = await calls.list<V1Node>(NODES);
  return items.map(({ metadata }) => metadata?.name ?? "");
}
