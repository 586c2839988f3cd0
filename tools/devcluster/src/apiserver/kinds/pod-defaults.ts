import {
  isList,
  isObject,
  type JsonValue,
  type JsonObject,
  getList,
  getObject,
  setAt,
  getText,
  withDefaults,
} from "../json.ts";

const DEFAULT_MODE = 0o644;
const EVICTION_SECONDS = 300;

/** Adds the defaults that Kubernetes and its admission set on a new pod. */
export function defaultPod(pod: JsonObject): JsonObject {
  const spec = defaultPodSpec(getObject(pod, "spec"));
  const filled = withDefaults(
    {
      ...spec,
      ...mapList(spec, "containers", requestLimits),
      ...mapList(spec, "initContainers", requestLimits),
      tolerations: defaultTolerations(getList(spec, "tolerations")),
    },
    { priority: 0, enableServiceLinks: true, preemptionPolicy: "PreemptLowerPriority" },
  );
  const seconds = filled["terminationGracePeriodSeconds"];
  // A negative period means the shortest one.
  const checked = typeof seconds === "number" && seconds < 0 ? { ...filled, terminationGracePeriodSeconds: 1 } : filled;
  const conditions = getList(checked, "schedulingGates").length === 0 ? {} : { conditions: [gated(pod)] };
  return { ...pod, spec: checked, status: { phase: "Pending", ...conditions, qosClass: serviceClass(checked) } };
}

/** Replaces the spec of a new pod, and updates its class of service. */
export function withSpec(pod: JsonObject, spec: JsonObject): JsonObject {
  return setAt({ ...pod, spec }, ["status", "qosClass"], serviceClass(spec));
}

/** Fills in the defaults wherever a pod is described, also in the template of a workload. */
export function defaultPodSpec(spec: JsonObject): JsonObject {
  return withDefaults(
    {
      ...spec,
      ...mapList(spec, "containers", defaultContainer),
      ...mapList(spec, "initContainers", defaultContainer),
      ...mapList(spec, "volumes", defaultVolume),
    },
    {
      restartPolicy: "Always",
      terminationGracePeriodSeconds: 30,
      dnsPolicy: "ClusterFirst",
      securityContext: {},
      schedulerName: "default-scheduler",
    },
  );
}

/** The server sets this condition: a scheduler ignores the pod until its gates are removed. */
function gated(pod: JsonObject): JsonObject {
  return {
    type: "PodScheduled",
    status: "False",
    lastProbeTime: null,
    lastTransitionTime: getText(pod, "metadata", "creationTimestamp"),
    reason: "SchedulingGated",
    message: "Scheduling is blocked due to non-empty scheduling gates",
  };
}

/** Replaces a list of the object by its mapped one; does nothing without the list. */
function mapList(object: JsonObject, key: string, map: (item: JsonObject) => JsonObject): JsonObject {
  const list = object[key];
  return isList(list) ? { [key]: list.map((item) => (isObject(item) ? map(item) : item)) } : {};
}

function defaultContainer(container: JsonObject): JsonObject {
  return withDefaults(
    {
      ...container,
      ...mapList(container, "ports", (port) => withDefaults(port, { protocol: "TCP" })),
      ...mapList(container, "env", defaultVariable),
      ...(isObject(container["readinessProbe"]) ? { readinessProbe: defaultProbe(container["readinessProbe"]) } : {}),
      resources: getObject(container, "resources"),
    },
    {
      terminationMessagePath: "/dev/termination-log",
      terminationMessagePolicy: "File",
      imagePullPolicy: isLatest(getText(container, "image")) ? "Always" : "IfNotPresent",
    },
  );
}

/** A container requests its limit, where it requests nothing. */
function requestLimits(container: JsonObject): JsonObject {
  const { limits } = getObject(container, "resources");
  if (!isObject(limits)) return container;
  const requests = withDefaults(getObject(container, "resources", "requests"), limits);
  return setAt(container, ["resources", "requests"], requests);
}

function isLatest(image: string): boolean {
  if (image.includes("@")) return false;
  const tag = /:([^:/]+)$/.exec(image)?.[1];
  return tag === undefined || tag === "latest";
}

function defaultVariable(variable: JsonObject): JsonObject {
  const reference = getObject(variable, "valueFrom", "fieldRef");
  if (Object.keys(reference).length === 0) return variable;
  return setAt(variable, ["valueFrom", "fieldRef"], withDefaults(reference, { apiVersion: "v1" }));
}

function defaultProbe(probe: JsonObject): JsonObject {
  const get = probe["httpGet"];
  const httpGet = isObject(get) ? { httpGet: withDefaults(get, { path: "/", scheme: "HTTP" }) } : {};
  const numbers = { timeoutSeconds: 1, periodSeconds: 10, successThreshold: 1, failureThreshold: 3 };
  return withDefaults({ ...probe, ...httpGet }, numbers);
}

function defaultVolume(volume: JsonObject): JsonObject {
  const sources = Object.keys(volume).filter((key) => key !== "name");
  if (sources.length === 0) return { ...volume, emptyDir: {} };
  const modes = ["configMap", "secret", "projected", "downwardAPI"].filter((key) => isObject(volume[key]));
  const withModes = modes.map(
    (key) => [key, withDefaults(getObject(volume, key), { defaultMode: DEFAULT_MODE })] as const,
  );
  const hostPath = volume["hostPath"];
  return {
    ...volume,
    ...Object.fromEntries(withModes),
    ...(isObject(hostPath) ? { hostPath: withDefaults(hostPath, { type: "" }) } : {}),
  };
}

function defaultTolerations(tolerations: readonly JsonValue[]): JsonValue[] {
  const missing = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"].filter(
    (key) => !tolerations.some((toleration) => toleratesEviction(toleration, key)),
  );
  const added = missing.map((key) => ({
    key,
    operator: "Exists",
    effect: "NoExecute",
    tolerationSeconds: EVICTION_SECONDS,
  }));
  return [...tolerations, ...added];
}

function toleratesEviction(toleration: JsonValue, key: string): boolean {
  return ["", key].includes(getText(toleration, "key")) && ["", "NoExecute"].includes(getText(toleration, "effect"));
}

/** Guaranteed: limits for cpu and memory everywhere, equal to the requests. BestEffort: none at all. */
function serviceClass(spec: JsonObject): string {
  const containers = [...getList(spec, "containers"), ...getList(spec, "initContainers")];
  const resources = containers.map((container) => ({
    limits: getObject(container, "resources", "limits"),
    requests: getObject(container, "resources", "requests"),
  }));
  const counted = ["cpu", "memory"];
  const isNamed = ({ limits, requests }: (typeof resources)[number]): boolean =>
    counted.some((name) => Object.hasOwn(limits, name) || Object.hasOwn(requests, name));
  if (!resources.some(isNamed)) return "BestEffort";
  const guaranteed = resources.every(({ limits, requests }) =>
    counted.every((name) => Object.hasOwn(limits, name) && (requests[name] ?? limits[name]) === limits[name]),
  );
  return guaranteed ? "Guaranteed" : "Burstable";
}
