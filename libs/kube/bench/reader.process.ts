/** Follows the pods of the server in one of the compared ways, and sends the cost of its changes to its parent. Run by events.ts. */
import { CoreV1Api, KubeConfig, makeInformer, type V1Pod } from "@kubernetes/client-node";
import { runController, workQueue } from "@muster/controller";
import { openInformer, listWatch } from "../src/index.ts";
import type { ReaderResult } from "./events.ts";

const [variant = "", server = "", count = ""] = process.argv.slice(2);
const config = new KubeConfig();
config.loadFromClusterAndUser({ name: "bench", server, skipTLSVerify: true }, { name: "bench", token: "bench" });

let events = 0;
let beganAt: { readonly cpu: NodeJS.CpuUsage; readonly ms: number } | undefined;

/** Called for each change. */
function seen(): void {
  beganAt ??= { cpu: process.cpuUsage(), ms: performance.now() };
  events += 1;
  if (events === Number(count)) setImmediate(report);
}

function report(): void {
  if (beganAt === undefined) return;
  const { user, system } = process.cpuUsage(beganAt.cpu);
  const result: ReaderResult = { events, cpuMs: (user + system) / 1000, wallMs: performance.now() - beganAt.ms };
  process.send?.(result);
}

async function ours(onKey: (key: string) => void): Promise<void> {
  const followed = openInformer<V1Pod, V1Pod>({
    source: listWatch<V1Pod>(config, "/api/v1/pods"),
    project: (pod) => pod,
  });
  await followed.synced;
  followed.onChange(({ key }) => {
    onKey(key);
    seen();
  });
}

const variants: Readonly<Record<string, () => Promise<void>>> = {
  informer: () => ours(() => undefined),
  "informer and controller": async () => {
    const queue = workQueue();
    const { signal } = new AbortController();
    void runController({ name: "bench", queue, stop: signal, workers: 4, reconcile: () => Promise.resolve(undefined) });
    await ours((key) => queue.add(key));
  },
  "client-node": async () => {
    const api = config.makeApiClient(CoreV1Api);
    const followed = makeInformer<V1Pod>(config, "/api/v1/pods", () => api.listPodForAllNamespaces());
    followed.on("update", seen);
    await followed.start();
  },
};
const follow = variants[variant];
if (follow === undefined) throw new Error(`no variant ${variant}`);
await follow();
