/** client-node's own watch on the same changes, with nothing behind its callback. Run by main.ts. */
import { KubeConfig, Watch, type V1Pod } from "@kubernetes/client-node";
import { makeLatencies } from "./load.ts";

const config = new KubeConfig();
config.loadFromClusterAndUser({ name: "bench", server: process.argv[2] ?? "", skipTLSVerify: true }, { name: "bench" });
const latencies = makeLatencies();
const seen = (_type: string, pod: V1Pod): void => latencies.add(pod.status?.podIP ?? "");
await new Watch(config).watch("/api/v1/pods", { resourceVersion: process.argv[3] ?? "" }, seen, () => undefined);
process.send?.("watching");
process.on("message", () => process.send?.(latencies.take()));
