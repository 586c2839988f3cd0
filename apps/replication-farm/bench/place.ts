import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { V1Pod } from "@kubernetes/client-node";
import { makeClient, connectNats } from "@muster/bus";
import { startApiServer, startSimulatedNodes } from "@muster/devcluster";
import { openInformer, makeKubeCalls, listWatch, loadKube } from "@muster/kube";
import { FarmService } from "@muster/proto";
import { listApiServers, startTestNats, selectSize, until } from "@muster/testkit";
import { buildSpec } from "../test/farm-world.ts";
import { computeMedian } from "./median.ts";

const APPS = fileURLToPath(new URL("../../", import.meta.url));
const PODS = Number(process.env["BENCH_PODS"] ?? selectSize(1000, 20));
const ROUNDS = Number(process.env["BENCH_ROUNDS"] ?? selectSize(3, 1));
/** Equal to the farm's number of requests in flight. */
const AT_ONCE = 32;
const POD_RESOURCE = { apiVersion: "v1", plural: "pods", namespace: "default" };
const LONG = { timeoutMs: 300_000, everyMs: 50 };
/** Simulated nodes run this alone. */
const TEMPLATE = { spec: { containers: [{ name: "main", image: "simulated", command: ["simulate"] }] } };

/** Measures the time from the request for a set until its pods exist, in turns with a bare loop that creates equal pods with the same client. */
export async function measurePlacement(): Promise<void> {
  await using stack = new AsyncDisposableStack();
  const [embedded, real] = listApiServers(startApiServer);
  const which = real.skip ? embedded : real;
  const server = stack.use(await which.start());
  const { kubeconfig } = server;
  stack.use(await startSimulatedNodes({ kubeconfig, pools: { n: PODS }, nodeGraceMs: 600_000, ...server.nodeOptions }));
  const nats = stack.use(await startTestNats());
  const config = loadKube(kubeconfig);
  const calls = stack.use(makeKubeCalls(config, { maxInFlight: AT_ONCE }));
  const pods = stack.use(
    openInformer<V1Pod, { readonly gated: boolean }>({
      source: listWatch<V1Pod>(config, "/api/v1/namespaces/default/pods"),
      project: ({ spec }) => ({ gated: (spec?.schedulingGates ?? []).length > 0 }),
    }),
  );
  await pods.synced;
  startServices(stack, { nats, kubeconfig });
  const bus = stack.use(await connectNats({ url: nats.url, token: nats.token, name: "bench" }));
  const farms = makeClient(bus, FarmService);
  await until("a farm answers", () => farms.listReplicaSets({}, { timeoutMs: 2000 }).then(() => true), LONG);
  const count = (): number => pods.list().filter(({ gated }) => !gated).length;
  const gone = () => until("all pods are gone", () => pods.list().length === 0, LONG);

  const farmMs: number[] = [];
  const bareMs: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const name = `round-${round}`;
    let start = performance.now();
    const spec = buildSpec("pool=n", PODS, { templateJson: JSON.stringify(TEMPLATE) });
    await farms.applyReplicaSet({ requestId: name, name, spec }, { timeoutMs: 30_000 });
    await until("the set's pods are there", () => count() === PODS, LONG);
    farmMs.push(performance.now() - start);
    await until("they are placed and ready", async () => (await healthy(name)) === PODS, LONG);
    const sample = (await calls.list<V1Pod>(POD_RESOURCE, { query: { limit: 1 } })).items[0];
    await farms.deleteReplicaSet({ requestId: `${name}-d`, name, force: true }, { timeoutMs: 30_000 });
    await gone();
    start = performance.now();
    await createBare(sample);
    await until("the bare pods are there", () => count() === PODS, LONG);
    bareMs.push(performance.now() - start);
    const names = Array.from({ length: PODS }, (_, index) => `bare-${index}`);
    await Promise.all(names.map((pod) => calls.delete(POD_RESOURCE, pod, { gracePeriodSeconds: 0 })));
    await gone();
  }
  report(which.title, farmMs, bareMs);

  async function healthy(name: string): Promise<number> {
    return (await farms.getReplicaSet({ name }, { timeoutMs: 30_000 })).set?.healthy ?? 0;
  }
  async function createBare(sample: V1Pod | undefined): Promise<void> {
    const { schedulingGates: _gates, nodeName: _node, ...spec } = sample?.spec ?? { containers: [] };
    await Promise.all(
      Array.from({ length: PODS }, (_, index) => {
        const metadata = { name: `bare-${index}`, labels: { bare: "yes" } };
        return calls.create(POD_RESOURCE, {
          apiVersion: "v1",
          kind: "Pod",
          metadata,
          spec: { ...spec, nodeName: `n-${index}` },
        });
      }),
    );
  }
}

function startServices(
  stack: AsyncDisposableStack,
  {
    nats,
    kubeconfig,
  }: { readonly nats: { readonly url: string; readonly token: string }; readonly kubeconfig: string },
): void {
  for (const app of ["watcher", "replication-farm"]) {
    const env = { MUSTER_NATS_URL: nats.url, MUSTER_NATS_TOKEN: nats.token, MUSTER_KUBECONFIG: kubeconfig };
    const child = spawn(process.execPath, [...profiling(app), `${APPS}${app}/src/main.ts`], {
      env: { PATH: process.env["PATH"], MUSTER_LOG_LEVEL: "error", ...env },
      stdio: ["ignore", "inherit", "inherit"],
    });
    stack.defer(async () => {
      child.kill("SIGTERM");
      await once(child, "exit");
    });
  }
}

function report(server: string, farmMs: readonly number[], bareMs: readonly number[]): void {
  const ratios = bareMs.map((ms, round) => ms / (farmMs[round] ?? NaN));
  console.log(
    `place: ${PODS} pods on ${PODS} simulated nodes of ${server}, ${AT_ONCE} requests in flight; medians of ${ROUNDS} rounds in turns`,
  );
  console.log(`  a bare loop of the client  ${(computeMedian(bareMs) / 1000).toFixed(1)} s`);
  console.log(
    `  one set                    ${(computeMedian(farmMs) / 1000).toFixed(1)} s, ratio ${computeMedian(ratios).toFixed(2)}`,
  );
}

/** BENCH_PROFILE names a directory: the farm writes its CPU profile there. */
function profiling(app: string): string[] {
  const directory = process.env["BENCH_PROFILE"];
  return directory === undefined || app !== "replication-farm" ? [] : ["--cpu-prof", `--cpu-prof-dir=${directory}`];
}
