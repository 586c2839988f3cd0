import { PHASES } from "./plan-session-shapes.ts";

/** The phases, and the end. */
export const MILESTONES = [...PHASES, "over"] as const;
export type Milestone = (typeof MILESTONES)[number];

export type Progress = {
  /** Kinds of its events. */
  readonly events: readonly string[];
  readonly anyPodMade: boolean;
  /** Whether its outcome is known and only its clean-up is missing. */
  readonly concluded: boolean;
  readonly finished: boolean;
};

export function getMilestone({ events, anyPodMade, concluded, finished }: Progress): Milestone {
  if (finished) return "over";
  if (concluded) return "cleaning-up";
  if (events.includes("RUN")) return "running";
  if (!events.includes("ACCEPT")) return "queued";
  return anyPodMade ? "provisioning" : "accepted";
}

export type JobProgress = {
  readonly hasMachines: boolean;
  readonly anyPodActive: boolean;
  readonly isRunning: boolean;
  readonly isOver: boolean;
};

/** A job publishes its outcome before its clean-up: it is `over` immediately, which includes the milestone `cleaning-up`. */
export function getJobMilestone({ hasMachines, anyPodActive, isRunning, isOver }: JobProgress): Milestone {
  if (isOver) return "over";
  if (isRunning) return "running";
  if (!hasMachines) return "queued";
  return anyPodActive ? "provisioning" : "accepted";
}
