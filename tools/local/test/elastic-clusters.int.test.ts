import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CoreV1Api } from "@kubernetes/client-node";
import { attachNodes } from "@muster/devcluster";
import { loadKube } from "@muster/kube";
import { startKubeApiServer, findKubeAssets, makeKubeClient, until, type TestKubeApiServer } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { stringify } from "yaml";
import { ELASTIC, INTERVALS } from "../src/elastic.ts";
import { type MachineMaker, startClusterApi, startKarpenter } from "./machine-makers.ts";
import { startMuster } from "./muster-run.ts";
import {
  buildElasticSession,
  listEventNames,
  expectNothingLeft,
  isFinished,
  startWorld,
  submitSession,
  waitForSession,
  type World,
} from "./stack-world.ts";

const assets = findKubeAssets();
const FIXTURES = process.env["MUSTER_CRD_FIXTURES"];
if (FIXTURES === undefined && process.env["CI"] === "true") {
  throw new Error(
    "CI=true allows no skipped suite: MUSTER_CRD_FIXTURES names no folder with karpenter and cluster-api",
  );
}
const missing = assets.found
  ? FIXTURES === undefined
    ? "MUSTER_CRD_FIXTURES names no folder"
    : undefined
  : assets.reason;

const PATIENCE = { timeoutMs: 120_000, everyMs: 100 };
const LONG = { timeout: 600_000 };

const MAKERS: readonly {
  name: string;
  start: (server: TestKubeApiServer, fixtures: string) => Promise<MachineMaker>;
}[] = [
  { name: "Karpenter", start: startKarpenter },
  { name: "Cluster API", start: startClusterApi },
];

describe.each(MAKERS)(
  `an elastic pool of $name on a real kube-apiserver${missing === undefined ? "" : ` (skipped: ${missing})`}`,
  ({ start }) => {
    describe.skipIf(missing !== undefined)("", () => {
      let world: World;
      let maker: MachineMaker;
      let api: CoreV1Api;
      const running = new AsyncDisposableStack();

      beforeAll(async () => {
        const directory = await mkdtemp(join(tmpdir(), "muster-elastic-"));
        running.defer(() => rm(directory, { recursive: true, force: true }));
        const server = running.use(await startKubeApiServer());
        running.use(
          await attachNodes({
            kubeconfig: server.kubeconfig,
            pools: [{ name: "drivers", nodes: 1 }],
            access: { clientCa: server.kubeletClientCa },
          }),
        );
        maker = running.use(await start(server, FIXTURES ?? ""));
        const poolsFile = join(directory, "pools.yaml");
        const [pool] = ELASTIC.pools;
        const pools = [{ ...pool, provider: "made", idle: "3s" }];
        await writeFile(poolsFile, stringify({ providers: { made: maker.provider }, pools }));
        const env = { ...INTERVALS, SESSION_RESULT_FILE: "result.json" };
        world = running.use(await startWorld({ kubeconfig: server.kubeconfig, poolsFile, env }));
        api = makeKubeClient(loadKube(server.kubeconfig), CoreV1Api, { timeoutMs: 60_000 });
      }, 300_000);
      afterAll(() => running.disposeAsync(), 60_000);

      const expectEmptyPool = async (): Promise<void> => {
        await until("no machine is requested", async () => (await maker.requested()) === 0, PATIENCE);
        await until(
          "the pool has no nodes",
          async () => (await api.listNode({ labelSelector: "pool=elastic" })).items.length === 0,
          PATIENCE,
        );
        await expectNothingLeft(world);
        await until("the ledger has an empty pool", async () => {
          const { pools } = await world.ledger.listPools({});
          const { capacity, elasticMax } = pools.find(({ name }) => name === "elastic") ?? {};
          return capacity === 0 && elasticMax === 8;
        });
      };

      it("has exactly the four nodes that a session needs, and none afterwards", LONG, async () => {
        await submitSession(world, "four", buildElasticSession(0.5));
        const session = await waitForSession(world, "four", "is finished", isFinished);
        expect(listEventNames(session).at(-1)).toBe("DONE");
        expect(maker.joined.size).toBe(4);
        await expectEmptyPool();
      });

      it("has exactly the four nodes of a job's gang", LONG, async () => {
        const before = maker.joined.size;
        const file = join(world.stack.kubeconfig, "../job.yaml");
        const containers = [{ name: "main", image: "node:24-bookworm-slim", command: ["node", "-e", "0"] }];
        const worker = { replicas: 4, pool: "elastic", template: { spec: { containers } } };
        const head = { apiVersion: "muster.dev/v1", kind: "Job", metadata: { name: "gang" } };
        await writeFile(file, stringify({ ...head, spec: { replicaSpecs: { worker } } }));
        const { code, output } = await startMuster(world, file);
        expect(code, output).toBe(0);
        expect(maker.joined.size - before).toBe(4);
        await expectEmptyPool();
      });
    });
  },
);
