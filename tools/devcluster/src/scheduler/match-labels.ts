import type { V1LabelSelector } from "@kubernetes/client-node";
import { matchesAll } from "@muster/resources";

export type Labels = Readonly<Record<string, string>>;

/** Kubernetes' label selector: an absent one matches nothing, an empty one matches everything. */
export function matchesSelector(selector: V1LabelSelector | undefined, labels: Labels): boolean {
  if (selector === undefined) return false;
  return hasLabels(selector.matchLabels ?? {}, labels) && matchesAll(selector.matchExpressions ?? [], labels);
}

export function hasLabels(wanted: Labels, labels: Labels): boolean {
  return Object.entries(wanted).every(([key, value]) => labels[key] === value);
}
