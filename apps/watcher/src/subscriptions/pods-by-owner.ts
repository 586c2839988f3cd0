import type { PodWatchEvent } from "./pod-watch-event.ts";

/** The last state of every pod, by owner. */
type PodsByOwner = {
  of(owner: string): readonly PodWatchEvent[];
  put(key: string, event: PodWatchEvent): void;
  /** Returns the removed state. */
  delete(key: string): PodWatchEvent | undefined;
};

export function makePodsByOwner(): PodsByOwner {
  const byOwner = new Map<string, Map<string, PodWatchEvent>>();
  return {
    of: (owner) => [...(byOwner.get(owner)?.values() ?? [])],
    put: (key, event) => {
      const owner = getOwner(key);
      const pods = byOwner.get(owner) ?? new Map<string, PodWatchEvent>();
      byOwner.set(owner, pods.set(key, event));
    },
    delete: (key) => {
      const owner = getOwner(key);
      const pods = byOwner.get(owner);
      const last = pods?.get(key);
      pods?.delete(key);
      if (pods?.size === 0) byOwner.delete(owner);
      return last;
    },
  };
}

/** Returns `<kind>.<id>` of the key `<kind>.<id>.<pod>`; the name of the pod may contain dots. */
export function getOwner(key: string): string {
  return key.split(".", 2).join(".");
}
