import { type FaultMatch, matchesRequest } from "./decide-fault.ts";
import type { RequestFacts } from "./request-facts.ts";

/** An open watch and the operations on it. */
export type PassedWatch = {
  readonly request: RequestFacts;
  /** Breaks the connection. */
  readonly drop: () => void;
  /** Forwards nothing more, not even the end. */
  readonly silence: () => void;
  /** Ends the watch with the event of an expired version. */
  readonly expire: () => void;
};

export type OpenWatches = {
  /** Adds a watch; the returned function removes it. */
  add(watch: PassedWatch): () => void;
  count(): number;
  /** Applies the fault to every matching watch; returns their number. */
  each(match: FaultMatch, act: "drop" | "silence" | "expire"): number;
};

export function openWatches(): OpenWatches {
  const open = new Set<PassedWatch>();
  return {
    add: (watch) => {
      open.add(watch);
      return () => {
        open.delete(watch);
      };
    },
    count: () => open.size,
    each: (match, act) => {
      const meant = [...open].filter(({ request }) => matchesRequest(match, request));
      for (const watch of meant) watch[act]();
      return meant.length;
    },
  };
}
