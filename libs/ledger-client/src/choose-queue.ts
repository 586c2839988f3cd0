import { API_GROUP, matchesLabels, type LabelSelector } from "@muster/names";

/** Label of work: the name of its queue. */
export const QUEUE_LABEL = `${API_GROUP}/queue`;
/** Label of a namespace: the queue of its work that names none. */
export const DEFAULT_QUEUE_LABEL = `${API_GROUP}/default-queue`;

/** State in the record of a queue whose deletion was requested. */
export const DELETING = "it is being deleted";

/** Wait code of work whose queue is unknown. */
export const QUEUE_UNKNOWN = "QUEUE_UNKNOWN";

/** The queue whose quota work uses. */
export type QueueChoice =
  /** No Queue exists: no quota limits the work. */
  | { readonly kind: "none" }
  /** `maxPriority`: a higher priority is lowered to it. */
  | { readonly kind: "queue"; readonly name: string; readonly maxPriority?: number | undefined }
  /** The request waits with the code QUEUE_UNKNOWN; `message`: the queue, and the valid names. */
  | { readonly kind: "unknown"; readonly message: string }
  /** The queues are not listed yet, so no request may be sent. */
  | { readonly kind: "unlisted" };

/** The fields of a Queue that decide about work. */
export type SeenQueue = {
  readonly record: {
    readonly name: string;
    /** Empty: it is the root of a tree. */
    readonly parent: string;
    readonly maxPriority?: number | undefined;
    /** The namespaces that it serves; undefined: none. */
    readonly namespaces?: NamespaceSelector | undefined;
  };
  readonly isDeleting: boolean;
};

/** A label selector as in Kubernetes: all of its requirements must hold. */
export type NamespaceSelector = {
  readonly matchLabels: Readonly<Record<string, string>>;
  readonly matchExpressions: readonly SelectorRequirement[];
};

type SelectorRequirement = { readonly key: string; readonly operator: string; readonly values: readonly string[] };

/** The queue that work names, empty for none, and the field that names it for messages, such as `spec.queue of the session`. */
export type NamedQueue = { readonly name: string; readonly field: string };

type Labels = Readonly<Record<string, string>>;

type Namespace = { readonly name: string; readonly labels: Labels };

const NAMES_SHOWN = 5;

/** Chooses by the name in the work, then by the label of its namespace, then the only leaf that serves the namespace. */
export function chooseQueue(
  { name: named, field }: NamedQueue,
  namespace: Namespace,
  queues: ReadonlyMap<string, SeenQueue>,
): QueueChoice {
  const leaves = findLeaves(queues);
  const serving = leaves.filter((queue) => serves(queue, namespace));
  if (named !== "") return chooseNamed(named, field, { namespace, queues, leaves, serving });
  const preset = namespace.labels[DEFAULT_QUEUE_LABEL] ?? "";
  if (preset !== "") {
    const source = `the label ${DEFAULT_QUEUE_LABEL} of the namespace ${namespace.name}`;
    return chooseNamed(preset, source, { namespace, queues, leaves, serving });
  }
  if (queues.size === 0) return { kind: "none" };
  const [only, ...others] = serving.filter(({ isDeleting }) => !isDeleting);
  if (only === undefined) return unknown(adviseOnNone(namespace));
  if (others.length === 0) return chosen(only);
  const names = listNames([only, ...others]);
  return unknown(
    `the queues ${names} serve the namespace ${namespace.name}: name one of them in ${field}, or in the label ` +
      `${DEFAULT_QUEUE_LABEL} of the namespace`,
  );
}

/** Indexes the Queues by name, as the job-controller publishes them. `entries`: the entries of the view of the bucket `queues`. */
export function indexQueues(
  entries: readonly { readonly value: SeenQueue["record"] & { readonly problem: string } }[],
): ReadonlyMap<string, SeenQueue> {
  return new Map(entries.map(({ value }) => [value.name, { record: value, isDeleting: value.problem === DELETING }]));
}

/** Whether queues exist but none serves the namespace, so all of its work waits. */
export function isUnserved(namespace: Namespace, queues: ReadonlyMap<string, SeenQueue>): boolean {
  return queues.size > 0 && !findLeaves(queues).some((queue) => !queue.isDeleting && serves(queue, namespace));
}

type Known = {
  readonly namespace: Namespace;
  readonly queues: ReadonlyMap<string, SeenQueue>;
  readonly leaves: readonly SeenQueue[];
  /** The leaves that serve the namespace. */
  readonly serving: readonly SeenQueue[];
};

function chooseNamed(name: string, source: string, { namespace, queues, leaves, serving }: Known): QueueChoice {
  const queue = queues.get(name);
  const obstacle = findObstacle(queue, { namespace, leaves });
  if (queue !== undefined && obstacle === undefined) return chosen(queue);
  const usable = serving.filter(({ isDeleting }) => !isDeleting);
  const advice = usable.length === 0 ? adviseOnNone(namespace) : `name one of its queues: ${listNames(usable)}`;
  return unknown(`${source} names the queue "${name}", which ${obstacle}; ${advice}`);
}

function findObstacle(
  queue: SeenQueue | undefined,
  { namespace, leaves }: Pick<Known, "namespace" | "leaves">,
): string | undefined {
  if (queue === undefined) return "does not exist";
  if (!leaves.includes(queue)) return "has queues below it, and only a leaf queue has work";
  if (!serves(queue, namespace)) {
    const isAbsent = queue.record.namespaces === undefined;
    const why = isAbsent ? "it has no spec.namespaceSelector" : "its spec.namespaceSelector does not match the labels";
    return `does not serve the namespace ${namespace.name}: ${why}`;
  }
  return queue.isDeleting ? "is being deleted" : undefined;
}

function chosen({ record: { name, maxPriority } }: SeenQueue): QueueChoice {
  return { kind: "queue", name, ...(maxPriority !== undefined && { maxPriority }) };
}

function unknown(message: string): QueueChoice {
  return { kind: "unknown", message };
}

function adviseOnNone({ name }: Namespace): string {
  return `no queue serves the namespace ${name}: select the namespace in the spec.namespaceSelector of a queue without queues below it`;
}

function listNames(queues: readonly SeenQueue[]): string {
  const names = queues.map(({ record }) => record.name);
  const more = names.length - NAMES_SHOWN;
  return `${names.slice(0, NAMES_SHOWN).join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}

/** The queues without queues below them, by name. */
function findLeaves(queues: ReadonlyMap<string, SeenQueue>): readonly SeenQueue[] {
  const parents = new Set([...queues.values()].map(({ record }) => record.parent));
  const leaves = [...queues.values()].filter(({ record }) => !parents.has(record.name));
  return leaves.sort((a, b) => (a.record.name < b.record.name ? -1 : 1));
}

function serves({ record: { namespaces } }: SeenQueue, { labels }: Namespace): boolean {
  return namespaces !== undefined && matchesLabels(toLabelSelector(namespaces), labels);
}

function toLabelSelector({ matchLabels, matchExpressions }: NamespaceSelector): LabelSelector {
  return [
    ...Object.entries(matchLabels).map(([key, value]) => ({ key, operator: "in", values: [value] }) as const),
    ...matchExpressions.map(({ key, operator, values }) => {
      switch (operator) {
        case "In":
          return { key, operator: "in", values } as const;
        case "NotIn":
          return { key, operator: "notin", values } as const;
        case "Exists":
          return { key, operator: "exists" } as const;
        default:
          return { key, operator: "absent" } as const;
      }
    }),
  ];
}
