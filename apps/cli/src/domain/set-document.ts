import { buildClosedSchema, type Schema } from "./json-schema.ts";
import { API_VERSION } from "./session-document.ts";

/** The `kind` of the document of a set, which differs from Kubernetes' ReplicaSet. */
export const SET_KIND = "PinnedReplicaSet";
export const STRATEGIES = ["Dynamic", "Static"] as const;
export type Strategy = (typeof STRATEGIES)[number];

/** The maximum number of replicas of one set. */
export const MAX_SET_REPLICAS = 1000;
/** The name is limited because the name of a pod adds a hyphen and a number. */
export const MAX_SET_NAME = 50;
const MAX_SET_LABELS = 64;
export const MIN_READY_SECONDS = { fallback: 5, max: 3600 };

/** The desired state of a set. */
export type SetSpec = {
  /** An empty text selects the set's name. */
  readonly podId: string;
  /** Undefined for a daemon set, which has a pod on each eligible node. */
  readonly replicas: number | undefined;
  readonly daemon: boolean;
  /** A Kubernetes label selector; empty selects every node, or every machine of the pool. */
  readonly nodeSelector: string;
  /** An empty text selects any node. */
  readonly pool: string;
  readonly allocationStrategy: Strategy;
  /** A pod counts in a roll, and ends a transfer, after it has been ready for this time. */
  readonly minReadySeconds: number;
  /** A pod template: metadata and spec. */
  readonly template: Readonly<Record<string, unknown>>;
  readonly labels: Readonly<Record<string, string>>;
};

export type SetDocument = { readonly name: string; readonly spec: SetSpec };

/** Builds the document with all defaults written in full. */
export function buildSetDocument({ name, spec }: SetDocument): Record<string, unknown> {
  const { labels, podId, replicas, daemon, nodeSelector, pool, allocationStrategy, minReadySeconds, template } = spec;
  return {
    apiVersion: API_VERSION,
    kind: SET_KIND,
    metadata: { name, ...(Object.keys(labels).length > 0 && { labels }) },
    spec: {
      podId: podId === "" ? name : podId,
      ...(daemon ? { daemon } : { replicas }),
      ...(pool === "" ? { nodeSelector } : { pool }),
      allocationStrategy,
      minReadySeconds,
      template,
    },
  };
}

const LABEL = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";

/** Builds the JSON Schema (2020-12) of one document, for editors. The replication farm checks what only the cluster knows of pod templates. */
export function buildSetSchema(): Schema {
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    title: "Muster pinned replica set",
    description: "Pods that are kept on chosen nodes, one for each node.",
    ...buildClosedSchema(["apiVersion", "kind", "metadata", "spec"], {
      apiVersion: { const: API_VERSION },
      kind: { const: SET_KIND },
      metadata: buildClosedSchema(["name"], {
        name: {
          type: "string",
          pattern: LABEL,
          maxLength: MAX_SET_NAME,
          description: "Name of the set. Pods are called NAME-NUMBER.",
        },
        labels: { ...texts("Labels of the set, for the selectors of farms and lists."), maxProperties: MAX_SET_LABELS },
      }),
      spec: spec(),
    }),
  };
}

function spec(): Schema {
  return {
    allOf: [
      { oneOf: [{ required: ["replicas"] }, { required: ["daemon"] }] },
      { oneOf: [{ required: ["nodeSelector"] }, { required: ["pool"] }] },
    ],
    ...buildClosedSchema(["template"], {
      replicas: {
        type: "integer",
        minimum: 0,
        maximum: MAX_SET_REPLICAS,
        description: "Number of pods, one for each node.",
      },
      daemon: { type: "boolean", description: "true: a pod on each eligible node, instead of a number of replicas." },
      podId: {
        type: "string",
        pattern: LABEL,
        maxLength: 63,
        description:
          "Identity of the pods; no node has two pods with one identity, also of different sets. Without it, the name of the set.",
      },
      nodeSelector: {
        description: 'The nodes that may be used: a label selector such as "zone in (a, b),disk=ssd", or labels.',
        oneOf: [{ type: "string" }, texts("All of these labels.")],
      },
      pool: {
        type: "string",
        minLength: 1,
        maxLength: 63,
        description: "Pool whose machines the set reserves, instead of a node selector.",
      },
      allocationStrategy: {
        enum: STRATEGIES,
        default: "Dynamic",
        description: "Dynamic: a node that is no longer eligible is replaced by another one. Static: never.",
      },
      minReadySeconds: {
        type: "integer",
        minimum: 0,
        maximum: MIN_READY_SECONDS.max,
        default: MIN_READY_SECONDS.fallback,
        description:
          "A pod counts in a rollout, and completes a transfer, after it has been ready for this many seconds.",
      },
      template: template(),
    }),
  };
}

function template(): Schema {
  return {
    description: "A pod template, as in Deployments.",
    ...buildClosedSchema(["spec"], {
      metadata: buildClosedSchema([], {
        labels: texts("Labels of each pod."),
        annotations: texts("Annotations of each pod."),
      }),
      spec: {
        type: "object",
        required: ["containers"],
        properties: {
          containers: {
            type: "array",
            minItems: 1,
            items: {
              type: "object",
              required: ["name", "image"],
              properties: { name: { type: "string" }, image: { type: "string" } },
            },
          },
          restartPolicy: { const: "Always" },
        },
      },
    }),
  };
}

function texts(description: string): Schema {
  return { type: "object", additionalProperties: { type: "string" }, description };
}
