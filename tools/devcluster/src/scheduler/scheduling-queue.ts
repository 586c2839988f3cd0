import type { V1Pod } from "@kubernetes/client-node";

/** Kubernetes' own back-off between two tries of one pod. */
const BACKOFF_MIN_MS = 1_000;
const BACKOFF_MAX_MS = 10_000;
/** A pod that fitted nowhere is tried again after so long, whatever was seen. */
const RETRY_ANYHOW_MS = 60_000;

type Waiting = {
  readonly pod: V1Pod;
  readonly createdAtMs: number;
  attempts: number;
  /** Not before; Infinity while a try is under way. */
  tryAtMs: number;
  /** When its back-off is over; a change of the cluster makes it due then. */
  restedAtMs: number;
};

/** The pods that wait for a node. A pod is due at once, then when its back-off is over and something has changed that may help it. */
export class SchedulingQueue {
  readonly #waiting = new Map<string, Waiting>();

  /** The pod as it is now. A new one is due at once. */
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

  /** The pods to try now, at most so many, by priority, then the oldest first. They are not due again before `failed`. */
  take(nowMs: number, limit: number): V1Pod[] {
    const due = [...this.#waiting.values()].filter((each) => each.tryAtMs <= nowMs).sort(byUrgency);
    const taken = due.slice(0, limit);
    for (const each of taken) each.tryAtMs = Infinity;
    return taken.map((each) => each.pod);
  }

  /** No node fits, or binding failed. `because` says whether only a change can help, or time alone. */
  failed(uid: string, because: "no-fit" | "conflict", nowMs: number): void {
    const each = this.#waiting.get(uid);
    if (each === undefined) return;
    const pauseMs = Math.min(BACKOFF_MAX_MS, BACKOFF_MIN_MS * 2 ** each.attempts);
    each.attempts += 1;
    each.restedAtMs = nowMs + pauseMs;
    each.tryAtMs = because === "conflict" ? each.restedAtMs : nowMs + RETRY_ANYHOW_MS;
  }

  /** Something changed that may make room: every pod is due once its back-off is over. */
  changed(): void {
    for (const each of this.#waiting.values()) {
      if (each.tryAtMs !== Infinity) each.tryAtMs = Math.min(each.tryAtMs, each.restedAtMs);
    }
  }

  /** When the next pod is due; Infinity when none is. */
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
