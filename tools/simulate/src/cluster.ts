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
  /** Resource version of the change, also of a deletion. */
  readonly version: number;
};

/** Kubernetes quantities by resource. */
export type Quantities = Readonly<Record<string, string>>;

export const NAMESPACE = "default";
/** Label of nodes: each pool has machines in every rack. */
export const RACK = "rack";
const RACKS = 3;

/** The storage of an API server: objects by name, and a new version for each change. Objects are immutable. */
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

  /** Throws already_exists for a taken name. Uids are never reused. */
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

  /** Changes the pod with this uid; does nothing if it no longer exists. */
  updatePod(name: string, uid: string, change: (pod: V1Pod) => V1Pod): void {
    const pod = this.pods.get(name);
    if (pod?.metadata?.uid === uid) this.#putPod(name, change(pod));
  }

  /** Marks the pod for deletion; its node ends it. A pod without a node is removed immediately. */
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
    this.#notify({ kind: "pods", name, before, after: undefined, version: this.version });
  }

  /** A node without allocatable amounts is granted only as a whole. */
  putNode(name: string, pool: string, ready: boolean, allocatable?: Quantities): void {
    const before = this.nodes.get(name);
    this.version += 1;
    this.#uids += 1;
    const node: V1Node = {
      metadata: {
        name,
        uid: before?.metadata?.uid ?? `node-${this.#uids}`,
        labels: { pool, [RACK]: `rack-${Number(name.split("-").at(-1)) % RACKS}` },
        creationTimestamp: before?.metadata?.creationTimestamp ?? new Date(this.#time.nowMs),
        resourceVersion: String(this.version),
      },
      spec: {},
      status: {
        ...(allocatable !== undefined && { allocatable: { ...allocatable } }),
        conditions: [
          { type: "Ready", status: ready ? "True" : "Unknown", lastTransitionTime: new Date(this.#time.nowMs) },
        ],
      },
    };
    this.nodes.set(name, node);
    this.#notify({ kind: "nodes", name, before, after: node, version: this.version });
  }

  removeNode(name: string): void {
    const before = this.nodes.get(name);
    if (before === undefined) return;
    this.nodes.delete(name);
    this.version += 1;
    this.#notify({ kind: "nodes", name, before, after: undefined, version: this.version });
  }

  #putPod(name: string, pod: V1Pod): V1Pod {
    const before = this.pods.get(name);
    this.version += 1;
    const after = { ...pod, metadata: { ...pod.metadata, resourceVersion: String(this.version) } };
    this.pods.set(name, after);
    this.#notify({ kind: "pods", name, before, after, version: this.version });
    return after;
  }

  #notify(change: KubeChange): void {
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
