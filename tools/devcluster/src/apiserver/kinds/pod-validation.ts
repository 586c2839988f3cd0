import {
  at,
  isObject,
  type JsonValue,
  type JsonObject,
  getList,
  mapEntries,
  findNumber,
  getObject,
  setAt,
  isSameJson,
  getText,
} from "../json.ts";
import { checkLabel, checkLabelKey, checkSubdomain } from "../names.ts";
import {
  duplicate,
  fail,
  forbiddenValue,
  invalidValue,
  missingReference,
  notServed,
  type Problem,
  required,
  unsupported,
} from "../status.ts";

const PULL_POLICIES = ["Always", "IfNotPresent", "Never"];
const RESTART_POLICIES = ["Always", "OnFailure", "Never"];
const LARGEST_PORT = 65_535;

/** Checks a new pod as Kubernetes does, as far as a pod of processes can meet the rules. */
export function validatePod(pod: JsonObject): Problem[] {
  const spec = getObject(pod, "spec");
  refuseUnsupported(spec);
  const containers = getList(spec, "containers");
  const initContainers = getList(spec, "initContainers");
  const volumes = new Set(getList(spec, "volumes").map((volume) => getText(volume, "name")));
  const check = (list: readonly JsonValue[], field: string): Problem[] =>
    list.flatMap((container, index) => checkContainer(container, `${field}[${index}]`, volumes));
  const nodeName = getText(spec, "nodeName");
  const nodeProblem = nodeName === "" ? undefined : checkSubdomain(nodeName);
  return [
    ...checkVolumes(getList(spec, "volumes")),
    ...(containers.length === 0 ? [required("spec.containers")] : []),
    ...check(containers, "spec.containers"),
    ...check(initContainers, "spec.initContainers"),
    ...checkUnique([...containers], "spec.containers", "name"),
    ...checkUnique([...initContainers], "spec.initContainers", "name"),
    ...checkOneOf("spec.restartPolicy", getText(spec, "restartPolicy"), RESTART_POLICIES),
    ...(nodeProblem === undefined ? [] : [invalidValue("spec.nodeName", nodeName, nodeProblem)]),
    ...atLeast("spec.activeDeadlineSeconds", findNumber(spec, "activeDeadlineSeconds"), 1),
    ...checkGates(listGates(pod), nodeName),
    ...("ephemeralContainers" in spec ? [forbiddenValue("spec.ephemeralContainers", "cannot be set on create")] : []),
  ];
}

/** The fields that neither kubelet nor scheduler here supports. Sessions, jobs and leases use readiness alone, and end by themselves. */
const NOT_SERVED = ["livenessProbe", "startupProbe", "readinessProbe.grpc", "lifecycle.postStart"];

/** Refuses unsupported features, and required pod affinity. */
function refuseUnsupported(spec: JsonObject): void {
  if (at(spec, "affinity", "podAffinity", "requiredDuringSchedulingIgnoredDuringExecution") !== undefined)
    fail(notServed("required podAffinity"));
  const containers = [...getList(spec, "containers"), ...getList(spec, "initContainers")];
  for (const field of NOT_SERVED)
    if (containers.some((container) => at(container, ...field.split(".")) !== undefined)) fail(notServed(field));
}

function listGates(pod: JsonObject): string[] {
  return getList(pod, "spec", "schedulingGates").map((gate) => getText(gate, "name"));
}

function checkGates(gates: readonly string[], nodeName: string): Problem[] {
  const problems = gates.flatMap((gate, index) => {
    const problem = checkLabelKey(gate);
    const field = `spec.schedulingGates[${index}]`;
    return [
      ...(problem === undefined ? [] : [invalidValue(field, gate, problem)]),
      ...(gates.indexOf(gate) < index ? [duplicate(field, gate)] : []),
    ];
  });
  if (nodeName === "" || gates.length === 0) return problems;
  return [...problems, forbiddenValue("spec.nodeName", "cannot be set until all schedulingGates have been cleared")];
}

function checkContainer(container: JsonValue, field: string, volumes: ReadonlySet<string>): Problem[] {
  return [
    ...checkName(`${field}.name`, getText(container, "name")),
    ...(getText(container, "image") === "" ? [required(`${field}.image`)] : []),
    ...getList(container, "ports").flatMap((port, index) => checkPort(port, `${field}.ports[${index}]`)),
    ...getList(container, "env").flatMap((variable, index) =>
      checkVariable(getText(variable, "name"), `${field}.env[${index}].name`),
    ),
    ...getList(container, "volumeMounts").flatMap((mount, index) =>
      checkMount(mount, `${field}.volumeMounts[${index}]`, volumes),
    ),
    ...checkOneOf(`${field}.imagePullPolicy`, getText(container, "imagePullPolicy"), PULL_POLICIES),
  ];
}

function checkName(field: string, name: string): Problem[] {
  if (name === "") return [required(field)];
  const problem = checkLabel(name);
  return problem === undefined ? [] : [invalidValue(field, name, problem)];
}

function checkPort(port: JsonValue, field: string): Problem[] {
  const number = findNumber(port, "containerPort") ?? 0;
  if (number === 0) return [required(`${field}.containerPort`)];
  if (number > 0 && number <= LARGEST_PORT) return [];
  return [invalidValue(`${field}.containerPort`, number, `must be between 1 and ${LARGEST_PORT}, inclusive`)];
}

function checkVariable(name: string, field: string): Problem[] {
  if (name === "") return [required(field)];
  if (/^[ -<>-~]+$/.test(name)) return [];
  const because = "a valid environment variable name must consist only of printable ASCII characters other than '='";
  return [invalidValue(field, name, because)];
}

function checkMount(mount: JsonValue, field: string, volumes: ReadonlySet<string>): Problem[] {
  const name = getText(mount, "name");
  return [
    ...(name === "" ? [required(`${field}.name`)] : []),
    ...(name === "" || volumes.has(name) ? [] : [missingReference(`${field}.name`, name)]),
    ...(getText(mount, "mountPath") === "" ? [required(`${field}.mountPath`)] : []),
  ];
}

function checkVolumes(volumes: readonly JsonValue[]): Problem[] {
  const names = volumes.flatMap((volume, index) => checkName(`spec.volumes[${index}].name`, getText(volume, "name")));
  return [...names, ...checkUnique(volumes, "spec.volumes", "name")];
}

function checkUnique(items: readonly JsonValue[], field: string, key: string): Problem[] {
  const names = items.map((item) => getText(item, key));
  return names.flatMap((name, index) =>
    name !== "" && names.indexOf(name) < index ? [duplicate(`${field}[${index}].${key}`, name)] : [],
  );
}

function checkOneOf(field: string, value: string, supported: readonly string[]): Problem[] {
  return supported.includes(value) ? [] : [unsupported(field, value, supported)];
}

function atLeast(field: string, value: number | undefined, least: number): Problem[] {
  return value === undefined || value >= least
    ? []
    : [invalidValue(field, value, `must be greater than or equal to ${least}`)];
}

const CHANGEABLE =
  "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/**
 * A pod's spec stays as it was created, but for images, its deadline, tolerations that are added, and gates that are removed. While it has a gate, requirements
 * can be added to the nodes that it accepts.
 */
export function validatePodChange(before: JsonObject, after: JsonObject): Problem[] {
  const old = getList(before, "spec", "tolerations");
  const kept = getList(after, "spec", "tolerations");
  const lost = old.filter((toleration) => !kept.some((one) => isSameJson(one, toleration)));
  const tolerations =
    lost.length === 0
      ? []
      : [forbiddenValue("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")];
  const problems = [...tolerations, ...checkNewGates(listGates(before), listGates(after))];
  const isNarrowed = listGates(before).length > 0 && isNarrower(before, after);
  const frozenIn = (pod: JsonObject): JsonValue =>
    frozen(isNarrowed ? setAt(pod, ["spec", "affinity"], undefined) : pod);
  if (isSameJson(frozenIn(before), frozenIn(after))) return problems;
  return [...problems, forbiddenValue("spec", CHANGEABLE)];
}

/** Returns whether the pod accepts no additional node, judged by the terms of its node affinity. */
function isNarrower(before: JsonObject, after: JsonObject): boolean {
  const termsOf = (pod: JsonObject): readonly JsonValue[] =>
    getList(
      pod,
      "spec",
      "affinity",
      "nodeAffinity",
      "requiredDuringSchedulingIgnoredDuringExecution",
      "nodeSelectorTerms",
    );
  const restOf = (pod: JsonObject): JsonValue[] =>
    ["podAffinity", "podAntiAffinity"].map((kind) => at(pod, "spec", "affinity", kind) ?? null);
  const [old, terms] = [termsOf(before), termsOf(after)];
  if (!isSameJson(restOf(before), restOf(after))) return false;
  if (old.length === 0) return true;
  const hasAll = (term: JsonValue, other: JsonValue | undefined, key: string): boolean =>
    getList(term, key).every((each) => getList(other, key).some((one) => isSameJson(one, each)));
  const isKept = (term: JsonValue, index: number): boolean =>
    ["matchExpressions", "matchFields"].every((key) => hasAll(term, terms[index], key));
  return old.length === terms.length && old.every(isKept);
}

function checkNewGates(before: readonly string[], after: readonly string[]): Problem[] {
  return after.flatMap((gate, index) =>
    before.includes(gate)
      ? []
      : [
          forbiddenValue(
            `spec.schedulingGates[${index}].name`,
            `only deletion is allowed, but found new scheduling gate '${gate}'`,
          ),
        ],
  );
}

/** The part of a spec that may not change. */
function frozen(pod: JsonObject): JsonValue {
  const imageless = (list: readonly JsonValue[]): JsonValue[] =>
    list.map((item) => (isObject(item) ? setAt(item, ["image"], undefined) : item));
  return mapEntries(getObject(pod, "spec"), (key, value) => {
    if (["activeDeadlineSeconds", "tolerations", "schedulingGates"].includes(key)) return undefined;
    if (key === "containers" || key === "initContainers") return imageless(getList(pod, "spec", key));
    return value;
  });
}
