import type { V1Pod } from "@kubernetes/client-node";

/** Kubernetes' back-off between two attempts for one pod. */
const BACKOFF_MIN_MS = 1_000;
const BACKOFF_MAX_MS = 10_000;
/** An unschedulable pod is retried after this time, even without a change of the cluster. */
const RETRY_ANYHOW_MS = 60_000;

type Waiting = {
  readonly pod: V1Pod;
  readonly createdAtMs: number;
  attempts: number;
  /** The earliest time of the next attempt; Infinity during an attempt. */
  tryAtMs: number;
  /** The end of its back-off, from which a change of the cluster makes it due. */
  restedAtMs: number;
};

/** The pods that wait for a node. A new pod is due immediately, later attempts after its back-off and a change that may help it. */
export class SchedulingQueue {
  readonly #waiting = new Map<string, Waiting>();

  /** Sets the state of a pod. A new pod is due immediately. */
  set(pod: V1Pod, nowMs: number): void {
    const uid = pod.metadata?.uid ?? "";
    const old = this.#waiting.get(uid);
    const attempts = old?.attempts ?? 0;
    const createdAtMs = new Date(pod.metadata?.creationTimestamp ?? 0).getTime();
    if (old === undefined) this.#waiting.set(uid, { pod, createdAtMs, attempts, tryAtMs: nowMs, restedAtMs: nowMs });
    else this.#waiting.set(uid, { ...old, pod });
  }

  has(uid: string): boolean {
    return this.#waiting.has(uid);
  }

  delete(uid: string): void {
    this.#waiting.delete(uid);
  }

  /** Takes at most this many due pods, by priority and then by age. They are not due again before `failed`. */
  take(nowMs: number, limit: number): V1Pod[] {
    const due = [...this.#waiting.values()].filter((each) => each.tryAtMs <= nowMs).sort(byUrgency);
    const taken = due.slice(0, limit);
    for (const each of taken) each.tryAtMs = Infinity;
    return taken.map((each) => each.pod);
  }

  /** Records that no node fits, or that binding failed. `because` states whether a retry needs a change or only time. */
  failed(uid: string, because: "no-fit" | "conflict", nowMs: number): void {
    const each = this.#waiting.get(uid);
    if (each === undefined) return;
    const pauseMs = Math.min(BACKOFF_MAX_MS, BACKOFF_MIN_MS * 2 ** each.attempts);
    each.attempts += 1;
    each.restedAtMs = nowMs + pauseMs;
    each.tryAtMs = because === "conflict" ? each.restedAtMs : nowMs + RETRY_ANYHOW_MS;
  }

  /** Records a change that may free resources: every pod is due after its back-off. */
  changed(): void {
    for (const each of this.#waiting.values()) {
      if (each.tryAtMs !== Infinity) each.tryAtMs = Math.min(each.tryAtMs, each.restedAtMs);
    }
  }

  /** Returns when the next pod is due; Infinity if none is queued. */
  nextAtMs(): number {
    let next = Infinity;
    for (const each of this.#waiting.values()) next = Math.min(next, each.tryAtMs);
    return next;
  }
}

function byUrgency(a: Waiting, b: Waiting): number {
  const priority = (each: Waiting): number => each.pod.spec?.priority ?? 0;
  const uid = (each: Waiting): string => each.pod.metadata?.uid ?? "";
  return priority(b) - priority(a) || a.createdAtMs - b.createdAtMs || (uid(a) < uid(b) ? -1 : 1);
}
