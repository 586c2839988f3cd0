import type { V1Node, V1Pod } from "@kubernetes/client-node";
import { throwFault } from "@muster/faults";
import type { Trace } from "./trace.ts";
import type { VirtualTime } from "./virtual-time.ts";

export type KubeKind = "pods" | "nodes";
export type KubeObject = V1Pod | V1Node;
export type KubeChange = {
  readonly kind: KubeKind;
  readonly name: string;
  readonly before: KubeObject | undefined;
  readonly after: KubeObject | undefined;
  /** Undefined for what is gone. */
  readonly version: number;
};

export const NAMESPACE = "default";

/** What an API server stores: objects by name, each change under a version of its own. Objects are replaced and never changed. */
export class Cluster {
  readonly pods = new Map<string, V1Pod>();
  readonly nodes = new Map<string, V1Node>();
  readonly listeners = new Set<(change: KubeChange) => void>();
  version = 1;
  readonly #time: VirtualTime;
  readonly #trace: Trace;
  #uids = 0;

  constructor(time: VirtualTime, trace: Trace) {
    this.#time = time;
    this.#trace = trace;
  }

  /** Rejects what exists; the uid is new for ever. */
  createPod(manifest: V1Pod): V1Pod {
    const name = manifest.metadata?.name ?? "";
    if (this.pods.has(name)) throwFault({ code: "already_exists", kind: "pod", id: name });
    this.#uids += 1;
    const created = { uid: `pod-${this.#uids}`, creationTimestamp: new Date(this.#time.nowMs) };
    return this.#putPod(name, {
      ...manifest,
      metadata: { ...manifest.metadata, ...created },
      status: { phase: "Pending" },
    });
  }

  /** Changes the pod of exactly this uid; nothing happens when it is gone. */
  updatePod(name: string, uid: string, change: (pod: V1Pod) => V1Pod): void {
    const pod = this.pods.get(name);
    if (pod?.metadata?.uid === uid) this.#putPod(name, change(pod));
  }

  /** Asks for the end of the pod; its node ends it. A pod without a node goes at once. */
  deletePod(name: string, uid: string): void {
    const pod = this.pods.get(name);
    if (pod?.metadata?.uid !== uid || pod.metadata.deletionTimestamp !== undefined) return;
    if ((pod.spec?.nodeName ?? "") === "") {
      this.removePod(name, uid);
      return;
    }
    this.#putPod(name, { ...pod, metadata: { ...pod.metadata, deletionTimestamp: new Date(this.#time.nowMs) } });
  }

  removePod(name: string, uid: string): void {
    const before = this.pods.get(name);
    if (before?.metadata?.uid !== uid) return;
    this.pods.delete(name);
    this.version += 1;
    this.#tell({ kind: "pods", name, before, after: undefined, version: this.version });
  }

  putNode(name: string, pool: string, ready: boolean): void {
    const before = this.nodes.get(name);
    this.version += 1;
    this.#uids += 1;
    const node: V1Node = {
      metadata: {
        name,
        uid: before?.metadata?.uid ?? `node-${this.#uids}`,
        labels: { pool },
        creationTimestamp: before?.metadata?.creationTimestamp ?? new Date(this.#time.nowMs),
        resourceVersion: String(this.version),
      },
      spec: {},
      status: {
        conditions: [
          { type: "Ready", status: ready ? "True" : "Unknown", lastTransitionTime: new Date(this.#time.nowMs) },
        ],
      },
    };
    this.nodes.set(name, node);
    this.#tell({ kind: "nodes", name, before, after: node, version: this.version });
  }

  removeNode(name: string): void {
    const before = this.nodes.get(name);
    if (before === undefined) return;
    this.nodes.delete(name);
    this.version += 1;
    this.#tell({ kind: "nodes", name, before, after: undefined, version: this.version });
  }

  #putPod(name: string, pod: V1Pod): V1Pod {
    const before = this.pods.get(name);
    this.version += 1;
    const after = { ...pod, metadata: { ...pod.metadata, resourceVersion: String(this.version) } };
    this.pods.set(name, after);
    this.#tell({ kind: "pods", name, before, after, version: this.version });
    return after;
  }

  #tell(change: KubeChange): void {
    const { kind, name, after } = change;
    this.#trace.note("api-server", `${kind} ${name} ${after === undefined ? "is gone" : describe(after)}`);
    for (const listener of this.listeners) listener(change);
  }
}

function describe(object: KubeObject): string {
  const { metadata, status } = object;
  const phase = status !== undefined && "phase" in status ? status.phase : status?.conditions?.[0]?.status;
  const node = object.spec !== undefined && "nodeName" in object.spec ? ` on ${object.spec.nodeName ?? ""}` : "";
  return `${metadata?.uid ?? ""} ${phase ?? ""}${node}${metadata?.deletionTimestamp === undefined ? "" : " deleting"}`;
}
