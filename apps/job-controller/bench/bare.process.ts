/**
 * Creates pods with the official client and does nothing else. Run by create.ts: `bare.process.ts KUBECONFIG COUNT IN_FLIGHT`, the pod is the first message,
 * and the answer says when it is done.
 */
import { once } from "node:events";
import { CoreV1Api, type V1Pod } from "@kubernetes/client-node";
import { loadKube } from "@muster/kube";
import { kubeClient } from "@muster/testkit";

const [kubeconfig = "", count = "0", maxInFlight = "1"] = process.argv.slice(2);
const api = kubeClient(loadKube(kubeconfig), CoreV1Api, { timeoutMs: 60_000 });
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
// Until it is ended: what it has used is read before that.
process.channel?.ref();
