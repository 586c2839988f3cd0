import { type JsonObject, getList, findNumber, setAt, getText } from "../json.ts";
import { isDeleting } from "../metadata.ts";
import { checkSubdomain } from "../names.ts";
import { defineResource, type Resource } from "../resource.ts";
import { podColumns } from "./pod-columns.ts";
import { defaultPod } from "./pod-defaults.ts";
import { validatePod, validatePodChange } from "./pod-validation.ts";

export const pods: Resource = defineResource({
  kind: "Pod",
  plural: "pods",
  shortNames: ["po"],
  categories: ["all"],
  subresources: ["status", "binding", "log", "eviction", "exec", "attach", "portforward"],
  checkName: checkSubdomain,
  columns: podColumns,
  fields: {
    "spec.nodeName": (pod) => getText(pod, "spec", "nodeName"),
    "spec.restartPolicy": (pod) => getText(pod, "spec", "restartPolicy"),
    "spec.schedulerName": (pod) => getText(pod, "spec", "schedulerName"),
    "spec.serviceAccountName": (pod) => getText(pod, "spec", "serviceAccountName"),
    "status.phase": (pod) => getText(pod, "status", "phase"),
    "status.podIP": (pod) => getText(pod, "status", "podIP"),
    "status.nominatedNodeName": (pod) => getText(pod, "status", "nominatedNodeName"),
  },
  defaults: defaultPod,
  validate: validatePod,
  validateChange: validatePodChange,
  counted: true,
  deleteReturnsObject: true,
  gracePeriodSeconds: decideGracePeriod,
});

/** A pod that has no node or has ended is deleted without grace. */
export function decideGracePeriod(pod: JsonObject, wanted: number | undefined): number {
  const seconds = wanted ?? findNumber(pod, "spec", "terminationGracePeriodSeconds") ?? 30;
  if (getText(pod, "spec", "nodeName") === "") return 0;
  if (["Succeeded", "Failed"].includes(getText(pod, "status", "phase"))) return 0;
  return seconds < 0 ? 1 : seconds;
}

export type BindResult = { readonly pod: JsonObject } | { readonly refused: string };

/** Binds a pod to its node, once. */
export function bindPod(pod: JsonObject, name: string, node: string, time: string): BindResult {
  const current = getText(pod, "spec", "nodeName");
  if (isDeleting(pod)) return { refused: `pod ${name} is being deleted, cannot be assigned to a host` };
  if (current !== "") return { refused: `pod ${name} is already assigned to node "${current}"` };
  if (getList(pod, "spec", "schedulingGates").length > 0) {
    return { refused: `pod ${name} has non-empty .spec.schedulingGates` };
  }
  const others = getList(pod, "status", "conditions").filter(
    (condition) => getText(condition, "type") !== "PodScheduled",
  );
  const scheduled = { type: "PodScheduled", status: "True", lastProbeTime: null, lastTransitionTime: time };
  return { pod: setAt(setAt(pod, ["spec", "nodeName"], node), ["status", "conditions"], [...others, scheduled]) };
}
