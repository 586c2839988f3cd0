import {
  at,
  isObject,
  type Json,
  type JsonObject,
  listAt,
  numberAt,
  objectAt,
  put,
  sameJson,
  textAt,
  withDefaults,
} from "../json.ts";
import { matchesSelector, printSelector } from "../object-selector.ts";
import { fail, forbiddenValue, invalidValue, notServed, type Problem, required, unsupported } from "../status.ts";
import { type Column, column, orNone } from "../table.ts";
import { defaultPodSpec } from "./pod-defaults.ts";
import { validatePod } from "./pod-validation.ts";

/** Where the scale subresource finds the replicas of a workload. */
export const WORKLOAD_SCALE = {
  specReplicas: ["spec", "replicas"],
  statusReplicas: ["status", "replicas"],
  selector: ["spec", "selector"],
} as const;

export const CONTAINER_COLUMNS: readonly Column[] = [
  column("Containers", (workload) => containerTexts(workload, "name"), "wide"),
  column("Images", (workload) => containerTexts(workload, "image"), "wide"),
];
export const SELECTOR_COLUMN: Column = column(
  "Selector",
  (workload) => orNone(printSelector(objectAt(workload, "spec", "selector"))),
  "wide",
);

/** A column that counts something of the spec or the status. */
export function countColumn(name: string, ...path: readonly string[]): Column {
  return { ...column(name, (workload) => numberAt(workload, ...path) ?? 0), type: "integer" };
}

export function readyColumn(): Column {
  return column("Ready", (workload) => {
    const ready = numberAt(workload, "status", "readyReplicas") ?? 0;
    return `${ready}/${numberAt(workload, "spec", "replicas") ?? 0}`;
  });
}

/** One replica where none is said, and the template of a pod as Kubernetes completes it. */
export function defaultWorkload(workload: JsonObject, more: JsonObject): JsonObject {
  const spec = withDefaults(objectAt(workload, "spec"), { replicas: 1, ...more });
  const template = objectAt(spec, "template");
  return put({ ...workload, spec }, ["spec", "template"], {
    ...template,
    metadata: objectAt(template, "metadata"),
    spec: defaultPodSpec(objectAt(template, "spec")),
  });
}

/** What holds for the spec of every workload. `kind` is as Kubernetes names it in its words. */
export function checkWorkload(workload: JsonObject, kind: "deployment" | "statefulset"): Problem[] {
  const spec = objectAt(workload, "spec");
  return [
    ...["replicas", "revisionHistoryLimit"].flatMap((field) => checkCount(spec, field)),
    ...checkSelector(spec["selector"], kind),
    ...checkTemplate(spec, kind === "statefulset" ? "StatefulSet" : "ReplicaSet"),
  ];
}

/** Refuses a field of another value than these: what it asks for is left to a real cluster. */
export function refuseValues(
  plural: string,
  workload: JsonObject,
  fields: Readonly<Record<string, readonly Json[]>>,
): void {
  for (const [field, values] of Object.entries(fields)) {
    const value = at(workload, ...field.split("."));
    if (value !== undefined && !values.some((one) => sameJson(one, value)))
      fail(notServed(`${field} ${JSON.stringify(value)} of ${plural}`));
  }
}

function checkCount(spec: JsonObject, field: string): Problem[] {
  const count = numberAt(spec, field) ?? 0;
  return count < 0 ? [invalidValue(`spec.${field}`, count, "must be greater than or equal to 0")] : [];
}

function checkSelector(selector: Json | undefined, kind: string): Problem[] {
  if (!isObject(selector)) return [required("spec.selector")];
  const size = Object.keys(objectAt(selector, "matchLabels")).length + listAt(selector, "matchExpressions").length;
  return size > 0 ? [] : [invalidValue("spec.selector", selector, `empty selector is invalid for ${kind}`)];
}

function checkTemplate(spec: JsonObject, owner: string): Problem[] {
  const { template, selector } = spec;
  const labels = objectAt(template, "metadata", "labels");
  const isMatched = !isObject(selector) || matchesSelector(selector, labels);
  const podSpec = objectAt(template, "spec");
  const restartPolicy = textAt(podSpec, "restartPolicy");
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

function containerTexts(workload: JsonObject, field: string): string {
  return listAt(workload, "spec", "template", "spec", "containers")
    .map((container) => textAt(container, field))
    .join(",");
}
