import type { V1Node, V1Pod } from "@kubernetes/client-node";
import { type NodeFacts, buildTaintKey } from "./plan-node-lifecycle.ts";

type Row = { node: V1Node; heardAtMs: number; taintedAtMs: ReadonlyMap<string, number> };

/** The observations of nodes, their leases and their pods, each with its time. Times are those of observation, so the clocks of nodes do not matter. */
export class NodeRecords {
  readonly #rows = new Map<string, Row>();
  readonly #pods = new Map<string, Map<string, V1Pod>>();
  readonly #orphanedAtMs = new Map<string, number>();

  /** Returns whether the change requires a new judgement of the node. */
  nodeChanged(before: V1Node | undefined, after: V1Node | undefined, nowMs: number): boolean {
    const name = (after ?? before)?.metadata?.name ?? "";
    if (after === undefined) {
      this.#rows.delete(name);
      return true;
    }
    const old = this.#rows.get(name);
    const taints = (after.spec?.taints ?? []).filter(({ effect }) => effect === "NoExecute").map(buildTaintKey);
    this.#rows.set(name, {
      node: after,
      heardAtMs: old === undefined || heartbeat(old.node) !== heartbeat(after) ? nowMs : old.heardAtMs,
      taintedAtMs: new Map(taints.map((key) => [key, old?.taintedAtMs.get(key) ?? nowMs])),
    });
    return judged(before) !== judged(after);
  }

  leaseRenewed(name: string, nowMs: number): void {
    const row = this.#rows.get(name);
    if (row !== undefined) row.heardAtMs = nowMs;
  }

  /** Records that this process slept for this time, in which no node counts as silent. */
  slept(gapMs: number): void {
    for (const row of this.#rows.values()) row.heardAtMs += gapMs;
  }

  podChanged(before: V1Pod | undefined, after: V1Pod | undefined): boolean {
    const pod = after ?? before;
    const uid = pod?.metadata?.uid ?? "";
    const nodeName = pod?.spec?.nodeName ?? "";
    const here = this.#pods.get(nodeName) ?? new Map<string, V1Pod>();
    if (after === undefined) {
      here.delete(uid);
      this.#orphanedAtMs.delete(uid);
    } else here.set(uid, after);
    if (here.size === 0) this.#pods.delete(nodeName);
    else this.#pods.set(nodeName, here);
    const row = this.#rows.get(nodeName);
    return row === undefined || row.taintedAtMs.size > 0;
  }

  facts(nowMs: number): NodeFacts[] {
    return [...this.#rows].map(([name, { node, heardAtMs, taintedAtMs }]) => ({
      node,
      heardAtMs: Math.min(heardAtMs, nowMs),
      taintedAtMs,
      pods: [...(this.#pods.get(name)?.values() ?? [])],
    }));
  }

  /** Returns the pods on nodes that do not exist, and when they may be removed. */
  orphans(nowMs: number, graceMs: number): { readonly pod: V1Pod; readonly dueAtMs: number }[] {
    const found: { pod: V1Pod; dueAtMs: number }[] = [];
    for (const [nodeName, pods] of this.#pods) {
      for (const [uid, pod] of pods) {
        if (this.#rows.has(nodeName)) {
          this.#orphanedAtMs.delete(uid);
          continue;
        }
        const sinceMs = this.#orphanedAtMs.get(uid) ?? nowMs;
        this.#orphanedAtMs.set(uid, sinceMs);
        found.push({ pod, dueAtMs: sinceMs + graceMs });
      }
    }
    return found;
  }
}

/** Only a kubelet updates this time. */
function heartbeat(node: V1Node): string {
  return JSON.stringify(node.status?.conditions?.find(({ type }) => type === "Ready")?.lastHeartbeatTime ?? "");
}

function judged(node: V1Node | undefined): string {
  const ready = node?.status?.conditions?.find(({ type }) => type === "Ready")?.status;
  return JSON.stringify([ready, node?.spec?.unschedulable, node?.spec?.taints]);
}
