import { type JsonObject, listAt, numberAt, put, textAt } from "../json.ts";
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
    "spec.nodeName": (pod) => textAt(pod, "spec", "nodeName"),
    "spec.restartPolicy": (pod) => textAt(pod, "spec", "restartPolicy"),
    "spec.schedulerName": (pod) => textAt(pod, "spec", "schedulerName"),
    "spec.serviceAccountName": (pod) => textAt(pod, "spec", "serviceAccountName"),
    "status.phase": (pod) => textAt(pod, "status", "phase"),
    "status.podIP": (pod) => textAt(pod, "status", "podIP"),
    "status.nominatedNodeName": (pod) => textAt(pod, "status", "nominatedNodeName"),
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
  const seconds = wanted ?? numberAt(pod, "spec", "terminationGracePeriodSeconds") ?? 30;
  if (textAt(pod, "spec", "nodeName") === "") return 0;
  if (["Succeeded", "Failed"].includes(textAt(pod, "status", "phase"))) return 0;
  return seconds < 0 ? 1 : seconds;
}

export type BindResult = { readonly pod: JsonObject } | { readonly refused: string };

/** Binds a pod to its node, once. */
export function bindPod(pod: JsonObject, name: string, node: string, time: string): BindResult {
  const current = textAt(pod, "spec", "nodeName");
  if (isDeleting(pod)) return { refused: `pod ${name} is being deleted, cannot be assigned to a host` };
  if (current !== "") return { refused: `pod ${name} is already assigned to node "${current}"` };
  if (listAt(pod, "spec", "schedulingGates").length > 0) {
    return { refused: `pod ${name} has non-empty .spec.schedulingGates` };
  }
  const others = listAt(pod, "status", "conditions").filter(
    (condition) => textAt(condition, "type") !== "PodScheduled",
  );
  const scheduled = { type: "PodScheduled", status: "True", lastProbeTime: null, lastTransitionTime: time };
  return { pod: put(put(pod, ["spec", "nodeName"], node), ["status", "conditions"], [...others, scheduled]) };
}
