import {
  at,
  isObject,
  type JsonValue,
  type JsonObject,
  getList,
  findNumber,
  getObject,
  setAt,
  isSameJson,
  getText,
  withDefaults,
} from "../json.ts";
import { matchesSelector } from "../object-selector.ts";
import { fail, forbiddenValue, invalidValue, notServed, type Problem, required, unsupported } from "../status.ts";
import { type Column, defineColumn } from "../table.ts";
import { defaultPodSpec } from "./pod-defaults.ts";
import { validatePod } from "./pod-validation.ts";

/** Builds a column for a count in the spec or the status. */
export function buildCountColumn(name: string, ...path: readonly string[]): Column {
  return { ...defineColumn(name, (workload) => findNumber(workload, ...path) ?? 0), type: "integer" };
}

export function buildReadyColumn(): Column {
  return defineColumn("Ready", (workload) => {
    const ready = findNumber(workload, "status", "readyReplicas") ?? 0;
    return `${ready}/${findNumber(workload, "spec", "replicas") ?? 0}`;
  });
}

/** Defaults to one replica, and adds Kubernetes' defaults to the pod template. */
export function defaultWorkload(workload: JsonObject, more: JsonObject): JsonObject {
  const spec = withDefaults(getObject(workload, "spec"), { replicas: 1, ...more });
  const template = getObject(spec, "template");
  return setAt({ ...workload, spec }, ["spec", "template"], {
    ...template,
    metadata: getObject(template, "metadata"),
    spec: defaultPodSpec(getObject(template, "spec")),
  });
}

/**
 * Checks the spec of every workload. `kind` is Kubernetes' own word for it. Refuses any value other than `served`, and more than one replica: leases have one,
 * and a real cluster serves the rest.
 */
export function checkWorkload(
  workload: JsonObject,
  kind: "deployment" | "statefulset",
  served: Readonly<Record<string, readonly JsonValue[]>>,
): Problem[] {
  const spec = getObject(workload, "spec");
  const problems = [
    ...["replicas", "revisionHistoryLimit"].flatMap((field) => checkCount(spec, field)),
    ...checkSelector(spec["selector"], kind),
    ...checkTemplate(spec, kind === "statefulset" ? "StatefulSet" : "ReplicaSet"),
  ];
  if (problems.length > 0) return problems;
  for (const [field, values] of Object.entries({ ...served, "spec.replicas": [0, 1] })) {
    const value = at(workload, ...field.split("."));
    if (value !== undefined && !values.some((one) => isSameJson(one, value)))
      fail(notServed(`${field} ${JSON.stringify(value)} of a ${getText(workload, "kind")}`));
  }
  return [];
}

function checkCount(spec: JsonObject, field: string): Problem[] {
  const count = findNumber(spec, field) ?? 0;
  return count < 0 ? [invalidValue(`spec.${field}`, count, "must be greater than or equal to 0")] : [];
}

function checkSelector(selector: JsonValue | undefined, kind: string): Problem[] {
  if (!isObject(selector)) return [required("spec.selector")];
  const size = Object.keys(getObject(selector, "matchLabels")).length + getList(selector, "matchExpressions").length;
  return size > 0 ? [] : [invalidValue("spec.selector", selector, `empty selector is invalid for ${kind}`)];
}

function checkTemplate(spec: JsonObject, owner: string): Problem[] {
  const { template, selector } = spec;
  const labels = getObject(template, "metadata", "labels");
  const isMatched = !isObject(selector) || matchesSelector(selector, labels);
  const podSpec = getObject(template, "spec");
  const restartPolicy = getText(podSpec, "restartPolicy");
  const inTemplate = (problem: Problem): Problem => ({ ...problem, field: `spec.template.${problem.field}` });
  return [
    ...(isMatched
      ? []
      : [invalidValue("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")]),
    ...validatePod({ spec: podSpec }).map(inTemplate),
    ...(restartPolicy === "Always" ? [] : [unsupported("spec.template.spec.restartPolicy", restartPolicy, ["Always"])]),
    ...(podSpec["activeDeadlineSeconds"] === undefined
      ? []
      : [
          forbiddenValue(
            "spec.template.spec.activeDeadlineSeconds",
            `activeDeadlineSeconds in ${owner} is not Supported`,
          ),
        ]),
  ];
}
