/** An API server in a process of its own, whose pods change at a given rate. Each change carries the time at which it was made. Run by main.ts. */
import { fakeApiServer } from "../test/fake-api-server.ts";
import { benchPod, monotonicNs, PODS, type Order } from "./load.ts";

const STEP_MS = 5;

const server = await fakeApiServer();
for (let at = 0; at < PODS; at += 1) server.put("pods", benchPod(at, ""));
process.send?.({ url: server.config.getCurrentCluster()?.server ?? "" });
process.on("message", (order: Order) => {
  const startMs = performance.now();
  let made = 0;
  const timer = setInterval(() => {
    const due = Math.min(order.changes, ((performance.now() - startMs) * order.perSecond) / 1000);
    for (; made < due; made += 1) server.put("pods", benchPod(made % PODS, String(monotonicNs())));
    if (made < order.changes) return;
    clearInterval(timer);
    process.send?.({ made, tookMs: performance.now() - startMs });
  }, STEP_MS);
});
