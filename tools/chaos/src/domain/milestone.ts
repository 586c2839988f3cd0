import { PHASES } from "./plan-shapes.ts";

/** The phases, and the end. */
export const MILESTONES = [...PHASES, "over"] as const;
export type Milestone = (typeof MILESTONES)[number];

/** What of a stored session says how far it is. */
export type Progress = {
  /** Kinds of its events. */
  readonly events: readonly string[];
  readonly anyPodMade: boolean;
  /** Its outcome is known, and waits for the clean-up. */
  readonly concluded: boolean;
  readonly finished: boolean;
};

export function milestoneOf({ events, anyPodMade, concluded, finished }: Progress): Milestone {
  if (finished) return "over";
  if (concluded) return "cleaning-up";
  if (events.includes("RUN")) return "running";
  if (!events.includes("ACCEPT")) return "queued";
  return anyPodMade ? "provisioning" : "accepted";
}
