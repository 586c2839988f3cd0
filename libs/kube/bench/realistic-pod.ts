import type { V1EnvVar, V1Pod } from "@kubernetes/client-node";

const CREATED = "2026-01-01T00:00:00Z";
const STARTED = "2026-01-01T00:00:03Z";

/** A typical pod: two containers, an init container, environment, volumes, conditions, statuses and managed fields; about 9 KiB of JSON. */
export function makeRealisticPod(at: number): V1Pod {
  // As on the wire: times are text.
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: metadata(at),
    spec: spec(at),
    status: status(at),
  } as unknown as V1Pod;
}

function metadata(at: number) {
  const labels = {
    "app.kubernetes.io/managed-by": "muster",
    "muster.dev/owner-kind": "session",
    "muster.dev/owner": `session-${Math.floor(at / 5)}`,
    "muster.dev/owner-uid": uid(at, 1),
    "muster.dev/component": `client-${at % 5}`,
    "muster.dev/component-kind": "client",
    "muster.dev/exclusive": "true",
  };
  return {
    name: `session-${Math.floor(at / 5)}-client-${at % 5}`,
    namespace: "default",
    uid: uid(at, 2),
    resourceVersion: String(100_000 + at),
    creationTimestamp: CREATED,
    labels,
    annotations: {
      "muster.dev/traceparent": `00-${uid(at, 3).replaceAll("-", "")}-b7ad6b7169203331-01`,
      "cni.projectcalico.org/podIP": `10.${at >> 8}.${at & 255}.7/32`,
    },
    managedFields: ["muster-session-controller", "kube-scheduler", "kubelet"].map((manager) => ({
      manager,
      operation: "Update",
      apiVersion: "v1",
      time: CREATED,
      fieldsType: "FieldsV1",
      fieldsV1: managedFields(labels),
    })),
  };
}

function spec(at: number) {
  return {
    restartPolicy: "Never",
    nodeName: `node-${at % 500}.example.internal`,
    nodeSelector: { pool: "workers" },
    serviceAccountName: "default",
    terminationGracePeriodSeconds: 30,
    schedulerName: "default-scheduler",
    dnsPolicy: "ClusterFirst",
    priority: 0,
    preemptionPolicy: "PreemptLowerPriority",
    tolerations: ["not-ready", "unreachable"].map((key) => ({
      key: `node.kubernetes.io/${key}`,
      operator: "Exists",
      effect: "NoExecute",
      tolerationSeconds: 300,
    })),
    initContainers: [container("setup", at)],
    containers: [container("main", at), container("log-shipper", at)],
    volumes: [
      {
        name: "kube-api-access",
        projected: { defaultMode: 420, sources: [{ serviceAccountToken: { path: "token" } }] },
      },
    ],
  };
}

function status(at: number) {
  const waits = { lastTransitionTime: "2026-01-01T00:00:09Z", lastProbeTime: null, status: "True" };
  return {
    phase: "Running",
    podIP: `10.${at >> 8}.${at & 255}.7`,
    podIPs: [{ ip: `10.${at >> 8}.${at & 255}.7` }],
    hostIP: `192.168.${at % 250}.1`,
    qosClass: "Burstable",
    startTime: STARTED,
    conditions: ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"].map(
      (type) => ({
        type,
        ...waits,
      }),
    ),
    initContainerStatuses: [
      {
        ...containerStatus("setup", at),
        state: { terminated: { exitCode: 0, reason: "Completed", finishedAt: STARTED } },
      },
    ],
    containerStatuses: [containerStatus("main", at), containerStatus("log-shipper", at)],
  };
}

function container(name: string, at: number) {
  const env: V1EnvVar[] = Array.from({ length: 14 }, (_, index) => ({
    name: `SETTING_${index}`,
    value: `value-${index}-of-${name}-in-${at}`,
  }));
  return {
    name,
    image: `registry.example.com/benchmarks/${name}:2026.01.01`,
    imagePullPolicy: "IfNotPresent",
    command: ["/bin/benchmark", `--name=${name}`, "--port=10000", "--verbose"],
    env,
    ports: [{ name: "driver-port", containerPort: 10_000, protocol: "TCP" }],
    resources: { requests: { cpu: "2", memory: "4Gi" }, limits: { memory: "8Gi" } },
    readinessProbe: { tcpSocket: { port: 10_000 }, periodSeconds: 1, failureThreshold: 3, successThreshold: 1 },
    terminationMessagePath: "/dev/termination-log",
    terminationMessagePolicy: "File",
    volumeMounts: [
      { name: "kube-api-access", mountPath: "/var/run/secrets/kubernetes.io/serviceaccount", readOnly: true },
    ],
  };
}

function containerStatus(name: string, at: number) {
  return {
    name,
    image: `registry.example.com/benchmarks/${name}:2026.01.01`,
    imageID: `registry.example.com/benchmarks/${name}@sha256:${uid(at, 4).replaceAll("-", "").repeat(2)}`,
    containerID: `containerd://${uid(at, 5).replaceAll("-", "").repeat(2)}`,
    ready: true,
    started: true,
    restartCount: 0,
    lastState: {},
    state: { running: { startedAt: "2026-01-01T00:00:09Z" } },
  };
}

function managedFields(labels: Readonly<Record<string, string>>) {
  const keys = Object.keys(labels).map((key): [string, object] => [`f:${key}`, {}]);
  const names = ["env", "image", "name", "ports", "resources", "terminationMessagePath"];
  const fields = names.map((key): [string, object] => [`f:${key}`, {}]);
  return {
    "f:metadata": { "f:labels": { ".": {}, ...Object.fromEntries(keys) } },
    "f:spec": { "f:containers": { 'k:{"name":"main"}': { ".": {}, ...Object.fromEntries(fields) } } },
  };
}

/** Different for each pod and use, the same in every run. */
function uid(at: number, use: number): string {
  const hex = ((at + 1) * 2_654_435_761 * (use + 7)).toString(16).padStart(16, "0").slice(-12);
  return `${hex.slice(0, 8)}-0000-4000-8000-${hex}`;
}
