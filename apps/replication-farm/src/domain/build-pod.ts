import { throwFault } from "@muster/faults";
import { buildPodName, type ReplicaPlacement, type ReplicaSet } from "./replica-set.ts";

/** Keys by which all services recognise each other's pods; they come from the contracts. */
type PodKeys = {
  readonly labels: Readonly<
    Record<
      | "managedBy"
      | "installation"
      | "ownerKind"
      | "owner"
      | "ownerUid"
      | "component"
      | "replicationController"
      | "podId"
      | "exclusive",
      string
    >
  >;
  readonly annotations: Readonly<Record<"traceparent", string>>;
  readonly schedulingGates: Readonly<Record<"unconfirmed", string>>;
};

/** `installation`: id of this installation. */
export type PodPolicy = { readonly namespace: string; readonly installation: string; readonly keys: PodKeys };

/** The owner kind of pods of replica sets. */
export const OWNER_KIND = "replica-set";

const HOSTNAME = "kubernetes.io/hostname";

type Item = Readonly<Record<string, unknown>>;

export type PodManifest = {
  readonly apiVersion: "v1";
  readonly kind: "Pod";
  readonly metadata: {
    readonly name: string;
    readonly namespace: string;
    readonly labels: Readonly<Record<string, unknown>>;
    readonly annotations: Readonly<Record<string, unknown>>;
  };
  readonly spec: Item;
};

/**
 * The pod of one placement: built from the set's template, on exactly that node, and restarted there while the placement exists. Its name follows from the set
 * and the placement's ordinal, so a repeated creation cannot create a second pod. Throws FaultError invalid_request for an invalid template.
 */
export function buildPod(
  { name: set, uid, spec, traceparent }: Pick<ReplicaSet, "name" | "uid" | "spec" | "traceparent">,
  { node, ordinal }: Pick<ReplicaPlacement, "node" | "ordinal">,
  { namespace, installation, keys }: PodPolicy,
): PodManifest {
  const template = readTemplate(spec.template);
  const { labels, annotations, schedulingGates } = keys;
  const name = buildPodName(set, ordinal);
  const pod = getObjectAt(template, "spec");
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name,
      namespace,
      labels: {
        ...getObjectAt(getObjectAt(template, "metadata"), "labels"),
        [labels.managedBy]: "muster",
        [labels.installation]: installation,
        [labels.ownerKind]: OWNER_KIND,
        [labels.owner]: set,
        [labels.ownerUid]: uid,
        [labels.component]: spec.podId,
        [labels.replicationController]: set,
        [labels.podId]: spec.podId,
        // The ledger grants the machine to no other owner while the pod exists.
        ...(spec.pool !== undefined && { [labels.exclusive]: "true" }),
      },
      annotations: {
        ...getObjectAt(getObjectAt(template, "metadata"), "annotations"),
        ...(traceparent !== "" && { [annotations.traceparent]: traceparent }),
      },
    },
    spec: {
      ...pod,
      restartPolicy: "Always",
      // The gate keeps the pod from running until its creator has reread the record, because a frozen creator may create the pod long after its placement was
      // removed.
      schedulingGates: [...listAt(pod, "schedulingGates"), { name: schedulingGates.unconfirmed }],
      affinity: buildAffinity(getObjectAt(pod, "affinity"), node, { [labels.podId]: spec.podId }),
      containers: listAt(pod, "containers").map((container) => withTrace(container, traceparent)),
    },
  };
}

function readTemplate(text: string): Item {
  let template: unknown;
  try {
    template = JSON.parse(text);
  } catch (cause) {
    return throwFault({ code: "invalid_request", field: "spec.template_json", reason: "is not JSON" }, { cause });
  }
  return isObject(template) ? template : refuse("", "object");
}

/**
 * Requires the node by its name, because its hostname label may differ. The scheduler needs only one matching term, so each of them names the node. The pod
 * also excludes others of its pod id. Schedulers honour that term of a running pod in both directions, so it holds even after its labels were removed.
 */
function buildAffinity(affinity: Item, node: string, podId: Readonly<Record<string, string>>): Item {
  const required = "requiredDuringSchedulingIgnoredDuringExecution";
  const nodeAffinity = getObjectAt(affinity, "nodeAffinity");
  const demanded = listAt(getObjectAt(nodeAffinity, required), "nodeSelectorTerms");
  const nodeSelectorTerms = (demanded.length > 0 ? demanded : [{}]).map((term) => ({
    ...term,
    matchFields: [...listAt(term, "matchFields"), { key: "metadata.name", operator: "In", values: [node] }],
  }));
  const apart = getObjectAt(affinity, "podAntiAffinity");
  const alone = { topologyKey: HOSTNAME, labelSelector: { matchLabels: podId } };
  return {
    ...affinity,
    nodeAffinity: { ...nodeAffinity, [required]: { nodeSelectorTerms } },
    podAntiAffinity: { ...apart, [required]: [...listAt(apart, required), alone] },
  };
}

function withTrace(container: Item, traceparent: string): Item {
  const env = listAt(container, "env");
  if (traceparent === "" || env.some(({ name }) => name === "TRACEPARENT")) return container;
  return { ...container, env: [{ name: "TRACEPARENT", value: traceparent }, ...env] };
}

function getObjectAt(item: Item, key: string): Item {
  const value = item[key];
  if (value === undefined || value === null) return {};
  return isObject(value) ? value : refuse(key, "object");
}

function listAt(item: Item, key: string): readonly Item[] {
  const value = item[key];
  if (value === undefined || value === null) return [];
  return Array.isArray(value) && value.every(isObject) ? value : refuse(key, "list of objects");
}

function refuse(key: string, wanted: string): never {
  const what = key === "" ? "it" : `"${key}" in it`;
  return throwFault({
    code: "invalid_request",
    field: "spec.template_json",
    reason: `is not a pod template: ${what} is not an ${wanted}`.replace("an list", "a list"),
  });
}

function isObject(value: unknown): value is Item {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
