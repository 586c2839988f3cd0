/** Keeps all pods of the server in one of the compared caches, and sends its memory to its parent. Run by main.ts, with --expose-gc. */
import { CoreV1Api, KubeConfig, makeInformer, type V1Pod } from "@kubernetes/client-node";
import { keepFacts } from "@muster/health";
import { openInformer, listWatch } from "../src/index.ts";

const [variant = "", server = ""] = process.argv.slice(2);
const config = new KubeConfig();
config.loadFromClusterAndUser({ name: "bench", server, skipTLSVerify: true }, { name: "bench", token: "bench" });

/** Returns the number of pods in the cache. */
type CountHeld = () => number;

const holders: Readonly<Record<string, () => Promise<CountHeld>>> = {
  projected: () => ours(watched),
  whole: () => ours((pod) => pod),
  "client-node": theirs,
};

const before = used();
const hold = holders[variant];
if (hold === undefined) throw new Error(`no variant ${variant}`);
const count = await hold();
const bytes = used() - before;
// The parent ends this process once it has the answer, so the cache stays in memory until then.
process.send?.({ pods: count(), bytes });

/** The part of a pod that the watcher keeps. */
function watched(pod: V1Pod) {
  const { metadata, spec, status } = pod;
  const own = metadata?.labels ?? {};
  return {
    owner: { kind: own["muster.dev/owner-kind"] ?? "", id: own["muster.dev/owner"] ?? "" },
    component: own["muster.dev/component"] ?? "",
    namespace: metadata?.namespace ?? "",
    name: metadata?.name ?? "",
    uid: metadata?.uid ?? "",
    resourceVersion: Number(metadata?.resourceVersion ?? 0),
    createdAtMs: new Date(metadata?.creationTimestamp ?? 0).getTime(),
    podIp: status?.podIP ?? "",
    node: spec?.nodeName ?? "",
    deleting: metadata?.deletionTimestamp !== undefined,
    exclusive: own["muster.dev/exclusive"] === "true",
    finished: false,
    mainContainer: undefined,
    facts: keepFacts(pod),
  };
}

async function ours(project: (pod: V1Pod) => object): Promise<CountHeld> {
  const followed = openInformer<V1Pod, object>({ source: listWatch<V1Pod>(config, "/api/v1/pods"), project });
  await followed.synced;
  return () => followed.list().length;
}

async function theirs(): Promise<CountHeld> {
  const api = config.makeApiClient(CoreV1Api);
  const followed = makeInformer<V1Pod>(config, "/api/v1/pods", () => api.listPodForAllNamespaces());
  await followed.start();
  return () => followed.list().length;
}

function used(): number {
  if (globalThis.gc === undefined) throw new Error("run with --expose-gc");
  for (let round = 0; round < 5; round += 1) globalThis.gc();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}
