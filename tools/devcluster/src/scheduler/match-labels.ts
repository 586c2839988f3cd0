import type { V1LabelSelector } from "@kubernetes/client-node";
import { matchesAll } from "@muster/resources";

export type Labels = Readonly<Record<string, string>>;

/** Matches labels as Kubernetes does: an absent selector matches nothing, an empty one everything. */
export function matchesSelector(selector: V1LabelSelector | undefined, labels: Labels): boolean {
  if (selector === undefined) return false;
  return hasLabels(selector.matchLabels ?? {}, labels) && matchesAll(selector.matchExpressions ?? [], labels);
}

export function hasLabels(wanted: Labels, labels: Labels): boolean {
  return Object.entries(wanted).every(([key, value]) => labels[key] === value);
}
