/** An API server in its own process, whose pods change at a given rate. Each change carries its time. Run by main.ts. */
import { startFakeApiServer } from "../test/fake-api-server.ts";
import { benchPod, FOREIGN_PODS, makeForeignPod, readMonotonicNs, nodeName, NODES, PODS, type Order } from "./load.ts";

const STEP_MS = 5;
/** One in this number of foreign changes creates or removes a pod, which changes the use of its node. The others change the status of a pod. */
const FOREIGN_USE_EVERY = 10;

const server = await startFakeApiServer();
for (let at = 0; at < NODES; at += 1) {
  const status = { allocatable: { cpu: "16", memory: "64Gi", pods: "110" }, conditions: [] };
  server.put("nodes", { metadata: { name: nodeName(at) }, status });
}
for (let at = 0; at < PODS; at += 1) server.put("pods", benchPod(at, ""));
for (let at = 0; at < FOREIGN_PODS; at += 1) server.put("pods", makeForeignPod(at));
process.send?.({ url: server.config.getCurrentCluster()?.server ?? "" });

function changeForeign(at: number): void {
  const use = Math.floor(at / FOREIGN_USE_EVERY);
  const short = makeForeignPod(FOREIGN_PODS + Math.floor(use / 2));
  if (at % FOREIGN_USE_EVERY > 0) server.put("pods", makeForeignPod(at % FOREIGN_PODS));
  else if (use % 2 === 0) server.put("pods", short);
  else server.delete("pods", short.metadata?.name ?? "", short.metadata?.namespace);
}

process.on("message", (order: Order) => {
  const startMs = performance.now();
  let made = 0;
  const timer = setInterval(() => {
    const due = Math.min(order.changes, ((performance.now() - startMs) * order.perSecond) / 1000);
    for (; made < due; made += 1) {
      server.put("pods", benchPod(made % PODS, String(readMonotonicNs())));
      changeForeign(made);
    }
    if (made < order.changes) return;
    clearInterval(timer);
    process.send?.({ made, tookMs: performance.now() - startMs });
  }, STEP_MS);
});
