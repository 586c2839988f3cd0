import { isEndPublished } from "../domain/plan-publish.ts";
import { buildPodKey, isPublished, type PodState, type RemovedPod, type WatchedPod } from "../domain/pod-state.ts";

/** Maximum removed pods whose end is not acknowledged; each takes about 2 KiB. */
const REMOVED_LIMIT = 10_000;

/** The last facts of removed pods. The API server no longer has these pods, and their published states may lack how they ended. */
type RemovedPods = {
  /** Records that one pod was added (no `before`), removed (no `after`) or changed. */
  change(before: WatchedPod | undefined, after: WatchedPod | undefined): void;
  /** Returns the pods under the key whose end is not published yet, and drops the pods whose end is published. */
  unpublished(key: string, published: PodState | undefined): readonly RemovedPod[];
  keys(): readonly string[];
};

export function makeRemovedPods(options: {
  readonly now: () => number;
  /** Namespace whose pods are kept, in addition to pods of sessions in other namespaces; absent: all namespaces. */
  readonly namespace?: string;
  /** Called with the oldest removed pod when it is dropped over the limit; its end is then derived from the published state. */
  readonly onDropped?: (removed: RemovedPod) => void;
  readonly limit?: number;
}): RemovedPods {
  const { now, namespace, onDropped = () => undefined, limit = REMOVED_LIMIT } = options;
  const byKey = new Map<string, readonly RemovedPod[]>();
  let count = 0;

  function keep(key: string, kept: readonly RemovedPod[]): void {
    count += kept.length - (byKey.get(key)?.length ?? 0);
    if (kept.length === 0) byKey.delete(key);
    else byKey.set(key, kept);
  }

  function dropOldest(): void {
    const [key, [oldest, ...others] = []] = byKey.entries().next().value ?? [];
    if (key === undefined || oldest === undefined) return;
    keep(key, others);
    onDropped(oldest);
  }

  return {
    change: (before, after) => {
      if (after !== undefined) {
        const key = buildPodKey(after);
        const others = byKey.get(key)?.filter(({ pod }) => pod.uid !== after.uid);
        if (others !== undefined) keep(key, others);
      }
      if (before === undefined || (after?.uid === before.uid && buildPodKey(after) === buildPodKey(before))) return;
      if (namespace !== undefined && !isPublished(before, namespace)) return;
      const key = buildPodKey(before);
      keep(key, [...(byKey.get(key) ?? []), { pod: before, removedAtMs: now() }]);
      if (count > limit) dropOldest();
    },
    unpublished: (key, published) => {
      const kept = byKey.get(key);
      if (kept === undefined) return [];
      const left = kept.filter(({ pod }) => !isEndPublished({ ...pod, deleted: true, observedAtMs: 0 }, published));
      keep(key, left);
      return left;
    },
    keys: () => [...byKey.keys()],
  };
}
