/** A node as the watcher told of it last. */
export type NodeFact = {
  readonly ready: boolean;
  /** Neither cordoned nor tainted so that no pod is put there. */
  readonly schedulable: boolean;
  readonly deleted: boolean;
  readonly observedAtMs: number;
};

/**
 * Whether a node is lost to a job: gone, or silent for too long, or closed for as long while none of the job's pods is there: it takes none, and those that are there
 * stay. The wait is also for whoever opens nodes again that somebody holds. `undefined`: no such node is known.
 */
export function isLost(
  node: NodeFact | undefined,
  {
    nowMs,
    lostAfterMs,
    occupied,
  }: { readonly nowMs: number; readonly lostAfterMs: number; readonly occupied: boolean },
): boolean {
  if (node === undefined || node.deleted) return true;
  const useless = !node.ready || (!node.schedulable && !occupied);
  return useless && nowMs - node.observedAtMs >= lostAfterMs;
}
