import { type FaultMatch, matchesRequest } from "./decide-fault.ts";
import type { RequestFacts } from "./request-facts.ts";

/** An open watch and the operations on it. */
export type PassedWatch = {
  readonly request: RequestFacts;
  /** Breaks the connection. */
  readonly drop: () => void;
  /** The watch forwards nothing more, not even its end. */
  readonly silence: () => void;
  /** Ends with the event that its version is too old. */
  readonly expire: () => void;
};

export type OpenWatches = {
  /** Returns the way to forget it. */
  add(watch: PassedWatch): () => void;
  count(): number;
  /** Does it to every watch that matches; returns to how many. */
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
