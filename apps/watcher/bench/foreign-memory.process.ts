/** Memory of a cluster of foreign pods in the cache and the index of a watcher, before and after. Run by main.ts, with --expose-gc. */
import { randomUUID } from "node:crypto";
import type { V1Pod } from "@kubernetes/client-node";
import { openInformer, type listWatch } from "@muster/kube";
import { selectSize } from "@muster/testkit";
import { makePodReader } from "../src/adapters/kube-objects.ts";
import { makePodIndex } from "../src/adapters/pod-index.ts";
import { buildNodeUses, type ClusterPod } from "../src/domain/node-use.ts";
import { makeForeignPod } from "./load.ts";

const PODS = selectSize(50_000, 500);
const PAGE = 500;
const ROUNDS = selectSize(21, 3);

type Memory = { readonly heapMib: number; readonly processMib: number };

export type MemoryFigures = {
  readonly pods: number;
  readonly before: Memory;
  readonly after: Memory;
  /** To sum the use of every node, as a full pass does. */
  readonly sumMs: number;
};

const source: ReturnType<typeof listWatch<V1Pod>> = {
  list: ({ continue: token = "0" }) => {
    const from = Number(token);
    const items = Array.from({ length: Math.min(PAGE, PODS - from) }, (_, at) => listedPod(from + at));
    const more = from + PAGE < PODS ? String(from + PAGE) : undefined;
    return Promise.resolve({ items, resourceVersion: "1", continue: more });
  },
  watch: async function* () {
    yield* [];
    await new Promise(() => undefined);
  },
};

const before = usedMemory();
const index = makePodIndex();
const pods = openInformer<V1Pod, ClusterPod>({
  source,
  project: makePodReader({ systemNamespaces: ["kube-system"], workNamespace: "default" }),
});
pods.onChange(({ before: was, after }) => index.change(was, after));
await pods.synced;
const after = usedMemory();
const figures: MemoryFigures = {
  pods: pods.list().length,
  before,
  after,
  sumMs: medianMs(() => buildNodeUses(pods.list())),
};
// The parent ends this process once it has the answer, so the cache stays in memory until then.
process.send?.(figures);

function medianMs(run: () => unknown): number {
  const times: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const startMs = performance.now();
    run();
    times.push(performance.now() - startMs);
  }
  return times.sort((one, other) => one - other)[Math.floor(ROUNDS / 2)] ?? Number.NaN;
}

/** As a page of a list has it: parsed from JSON, with a uid and a version of its own. */
function listedPod(at: number): V1Pod {
  const pod = makeForeignPod(at);
  const metadata = { ...pod.metadata, uid: randomUUID(), resourceVersion: String(100_000 + at) };
  return JSON.parse(JSON.stringify({ ...pod, metadata })) as V1Pod;
}

function usedMemory(): Memory {
  if (globalThis.gc === undefined) throw new Error("run with --expose-gc");
  for (let round = 0; round < 5; round += 1) globalThis.gc();
  const { heapUsed, external, rss } = process.memoryUsage();
  return { heapMib: (heapUsed + external) / 2 ** 20, processMib: rss / 2 ** 20 };
}
