/**
 * Creates pods with the official client and does nothing else. create.ts runs it: `bare.process.ts KUBECONFIG COUNT IN_FLIGHT`. The first message is the pod,
 * and the answer reports the end.
 */
import { once } from "node:events";
import { CoreV1Api, type V1Pod } from "@kubernetes/client-node";
import { loadKube } from "@muster/kube";
import { makeKubeClient } from "@muster/testkit";

const [kubeconfig = "", count = "0", maxInFlight = "1"] = process.argv.slice(2);
const api = makeKubeClient(loadKube(kubeconfig), CoreV1Api, { timeoutMs: 60_000 });
process.send?.("ready");
const [pod] = (await once(process, "message")) as [V1Pod];
let next = 0;
const lane = async (): Promise<void> => {
  for (let index = next++; index < Number(count); index = next++) {
    const body = { ...pod, metadata: { ...pod.metadata, name: `bare-${index}` } };
    await api.createNamespacedPod({ namespace: "default", body });
  }
};
await Promise.all(Array.from({ length: Number(maxInFlight) }, lane));
process.send?.("done");
// The open channel keeps the process running until its costs have been read.
process.channel?.ref();
