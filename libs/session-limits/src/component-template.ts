import type { CheckedSchema } from "@muster/documents";
import { NODE_SELECTOR_OPERATORS } from "@muster/resources";

/** Name of the container that a component describes. */
export const MAIN_CONTAINER = "main";

const ANY_TEXT: CheckedSchema = { type: "string" };
const TEXT: CheckedSchema = { type: "string", minLength: 1 };
const FLAG: CheckedSchema = { type: "boolean" };
const ID: CheckedSchema = { type: "integer", minimum: 0, maximum: 2 ** 31 - 1 };
const MODE: CheckedSchema = { type: "integer", minimum: 0, maximum: 0o777 };
const QUANTITY: CheckedSchema = {
  title: "a quantity such as 500m, 2 or 4Gi",
  anyOf: [
    { type: "number", minimum: 0 },
    { type: "string", pattern: "^[+]?([0-9]+([.][0-9]*)?|[.][0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?$" },
  ],
};

const LOCAL_NAME = { name: TEXT, optional: FLAG };
const KEY = closed(["name", "key"], { ...LOCAL_NAME, key: TEXT });
const FIELD = closed(["fieldPath"], { apiVersion: TEXT, fieldPath: TEXT });
const RESOURCE_FIELD = closed(["resource"], { containerName: TEXT, resource: TEXT, divisor: QUANTITY });
const ITEMS = list(closed(["key", "path"], { key: TEXT, path: TEXT, mode: MODE }));
const POD_FIELDS = list(
  closed(["path"], { path: TEXT, fieldRef: FIELD, resourceFieldRef: RESOURCE_FIELD, mode: MODE }),
);

const ENV = list(
  closed(["name"], {
    name: TEXT,
    value: ANY_TEXT,
    valueFrom: closed([], {
      secretKeyRef: KEY,
      configMapKeyRef: KEY,
      fieldRef: FIELD,
      resourceFieldRef: RESOURCE_FIELD,
    }),
  }),
);
const ENV_FROM = list(
  closed([], { prefix: ANY_TEXT, secretRef: closed(["name"], LOCAL_NAME), configMapRef: closed(["name"], LOCAL_NAME) }),
);

/** The sources of a volume; a volume has one of them. */
export const VOLUME_SOURCES: Readonly<Record<string, CheckedSchema>> = {
  emptyDir: closed([], { medium: ANY_TEXT, sizeLimit: QUANTITY }),
  configMap: closed(["name"], { ...LOCAL_NAME, items: ITEMS, defaultMode: MODE }),
  secret: closed(["secretName"], { secretName: TEXT, optional: FLAG, items: ITEMS, defaultMode: MODE }),
  persistentVolumeClaim: closed(["claimName"], { claimName: TEXT, readOnly: FLAG }),
  downwardAPI: closed([], { items: POD_FIELDS, defaultMode: MODE }),
  projected: closed(["sources"], {
    defaultMode: MODE,
    sources: list(
      closed([], {
        secret: closed(["name"], { ...LOCAL_NAME, items: ITEMS }),
        configMap: closed(["name"], { ...LOCAL_NAME, items: ITEMS }),
        downwardAPI: closed([], { items: POD_FIELDS }),
        serviceAccountToken: refused("pods of sessions have no token of the API server"),
      }),
    ),
  }),
};

const MOUNTS = list(
  closed(["name", "mountPath"], {
    name: TEXT,
    mountPath: TEXT,
    subPath: ANY_TEXT,
    subPathExpr: ANY_TEXT,
    readOnly: FLAG,
  }),
);
const AMOUNTS: CheckedSchema = { type: "object", additionalProperties: QUANTITY };
const SECCOMP = closed(["type"], {
  type: { enum: ["RuntimeDefault", "Localhost"] },
  localhostProfile: TEXT,
});
/** The capabilities that the level "baseline" of Kubernetes' Pod Security Standards lets a container add. */
const CAPABILITIES = [
  "AUDIT_WRITE",
  "CHOWN",
  "DAC_OVERRIDE",
  "FOWNER",
  "FSETID",
  "KILL",
  "MKNOD",
  "NET_BIND_SERVICE",
  "SETFCAP",
  "SETGID",
  "SETPCAP",
  "SETUID",
  "SYS_CHROOT",
];
/** The sysctls that the same level lets a pod set. */
const SYSCTLS = [
  "kernel.shm_rmid_forced",
  "net.ipv4.ip_local_port_range",
  "net.ipv4.ip_local_reserved_ports",
  "net.ipv4.ip_unprivileged_port_start",
  "net.ipv4.ping_group_range",
  "net.ipv4.tcp_fin_timeout",
  "net.ipv4.tcp_keepalive_intvl",
  "net.ipv4.tcp_keepalive_probes",
  "net.ipv4.tcp_keepalive_time",
  "net.ipv4.tcp_syncookies",
];
const USER = { runAsUser: ID, runAsGroup: ID, runAsNonRoot: FLAG, seccompProfile: SECCOMP };

/** The fields that every container may have. */
const CONTAINER = {
  env: ENV,
  envFrom: ENV_FROM,
  resources: closed([], { requests: AMOUNTS, limits: AMOUNTS }),
  volumeMounts: MOUNTS,
  imagePullPolicy: { enum: ["Always", "IfNotPresent", "Never"] },
  securityContext: closed([], {
    ...USER,
    readOnlyRootFilesystem: FLAG,
    capabilities: closed([], { add: list({ enum: CAPABILITIES }), drop: list(TEXT) }),
    allowPrivilegeEscalation: refused("no container of a session may gain privileges"),
    privileged: refused("containers of sessions run without privileges"),
  }),
};

const MAIN = closed(["name"], {
  name: { const: MAIN_CONTAINER },
  ...CONTAINER,
  image: refused("write it as the component's image"),
  command: refused("write it as the component's command"),
  args: refused("write them as the component's args"),
  workingDir: refused("write it as the component's workingDir"),
  ports: refused("the container opens spec.workerPort of the session; programs may listen on more ports without it"),
  readinessProbe: refused("write the port as the component's readyPort"),
  terminationMessagePath: refused("the driver's result is read from there (MUSTER_RESULT_FILE)"),
});

const INIT = closed(["name", "image"], {
  name: TEXT,
  image: TEXT,
  command: list(ANY_TEXT),
  args: list(ANY_TEXT),
  workingDir: TEXT,
  restartPolicy: { const: "Always" },
  ...CONTAINER,
});

const GRANTED = "the pod runs on the machine that the component's pool grants";
const REQUIRED_ONLY = "the ledger grants the machine, and knows only required node affinity";

/** Requirements of a node selector term. */
const REQUIREMENTS = list(
  closed(["key", "operator"], {
    key: TEXT,
    operator: { enum: NODE_SELECTOR_OPERATORS },
    values: list(ANY_TEXT),
  }),
);
const NODE_AFFINITY = closed([], {
  requiredDuringSchedulingIgnoredDuringExecution: closed(["nodeSelectorTerms"], {
    nodeSelectorTerms: {
      ...list(closed([], { matchExpressions: REQUIREMENTS, matchFields: REQUIREMENTS })),
      minItems: 1,
    },
  }),
  preferredDuringSchedulingIgnoredDuringExecution: refused(REQUIRED_ONLY),
});

/**
 * The allowed fields of the pod template of a component, as JSON Schema. The command and the session controller check it, and editors complete it. A field that
 * Muster sets itself is refused with its reason; every other missing field is unknown.
 */
export const COMPONENT_TEMPLATE_SCHEMA: CheckedSchema = {
  description: "Fields of the component's pod, as in pod templates of Kubernetes.",
  ...closed(["spec"], {
    metadata: closed([], { labels: map(ANY_TEXT), annotations: map(ANY_TEXT) }),
    spec: closed([], {
      containers: {
        ...list(MAIN),
        maxItems: 1,
        description: `What the component's own container, "${MAIN_CONTAINER}", has beside the component's fields.`,
      },
      initContainers: list(INIT),
      volumes: list(closed(["name"], { name: TEXT, ...VOLUME_SOURCES })),
      imagePullSecrets: list(closed(["name"], { name: TEXT })),
      serviceAccountName: refused(
        "pods of sessions have no access to Kubernetes, nor to what a cloud gives a service account",
      ),
      securityContext: closed([], {
        ...USER,
        fsGroup: ID,
        fsGroupChangePolicy: { enum: ["Always", "OnRootMismatch"] },
        supplementalGroups: list(ID),
        sysctls: list(closed(["name", "value"], { name: { enum: SYSCTLS }, value: ANY_TEXT })),
      }),
      tolerations: list(
        closed([], {
          key: TEXT,
          operator: { enum: ["Exists", "Equal"] },
          value: ANY_TEXT,
          effect: { enum: ["NoSchedule", "PreferNoSchedule", "NoExecute"] },
          tolerationSeconds: { type: "integer" },
        }),
      ),
      priorityClassName: TEXT,
      runtimeClassName: TEXT,
      nodeName: refused(GRANTED),
      nodeSelector: { description: "Labels of the nodes of the pool that the pod accepts.", ...map(ANY_TEXT) },
      affinity: closed([], {
        nodeAffinity: NODE_AFFINITY,
        podAffinity: refused(`${GRANTED}, whatever runs there`),
        podAntiAffinity: refused(`${GRANTED}; without shared, no other pod of Muster runs there`),
      }),
      topologySpreadConstraints: refused(`${GRANTED}, alone`),
      schedulingGates: refused("the session controller sets its own gate"),
      restartPolicy: refused("a component runs once: its pod has Never"),
      hostname: refused("it is the name of the pod, SESSION-COMPONENT"),
      subdomain: refused("workers are found by their addresses, in MUSTER_WORKERS"),
      terminationGracePeriodSeconds: refused("write it as spec.killAfter of the session"),
      activeDeadlineSeconds: refused("write it as spec.timeout of the session"),
      automountServiceAccountToken: refused("pods of sessions have no token of the API server"),
    }),
  }),
};

/** A refused field, with the reason. */
function refused(description: string): CheckedSchema {
  return { not: {}, description };
}

function closed(required: readonly string[], properties: Readonly<Record<string, CheckedSchema>>): CheckedSchema {
  return { type: "object", additionalProperties: false, ...(required.length > 0 && { required }), properties };
}

function list(items: CheckedSchema): CheckedSchema {
  return { type: "array", items };
}

function map(additionalProperties: CheckedSchema): CheckedSchema {
  return { type: "object", additionalProperties };
}
