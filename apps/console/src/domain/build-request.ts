import { parseDuration } from "@muster/faults";
import { MAX_POD_NAME_LENGTH } from "@muster/session-limits";
import type { ReadDocument } from "./read-documents.ts";

/** The request to the gateway for a document. */
export type DocumentRequest = {
  /** The path to which the document is sent. */
  readonly path: string;
  /** The path at which the gateway checks the document before it is sent. */
  readonly planPath: string;
  readonly body: unknown;
  /** The page of the created item. */
  readonly page: { readonly kind: "session" | "job" | "replica-set"; readonly id: string };
};

export type BuiltRequest = { readonly request: DocumentRequest } | { readonly refusal: string };

export type RequestContext = {
  /** The namespace of jobs without a namespace. */
  readonly namespace: string;
  /** The text that completes `generateName`. */
  readonly suffix: string;
};

type Fields = Readonly<Record<string, unknown>>;

const JOB_KINDS: ReadonlySet<string> = new Set(["Job", "TFJob", "PyTorchJob", "MPIJob", "JAXJob"]);

/** Builds the request for a document without findings. */
export function buildRequest(document: ReadDocument, { namespace, suffix }: RequestContext): BuiltRequest {
  const { kind, value } = document;
  const { metadata, spec } = value as { readonly metadata?: Fields; readonly spec?: Fields };
  const { generateName } = metadata ?? {};
  const name = typeof generateName === "string" ? `${generateName}${suffix}` : document.name;
  if (kind === "Session") {
    const sessionSpec = buildSessionSpec(spec ?? {});
    const long = sessionSpec.components.map((each) => `${name}-${String(each["name"])}`).find(isTooLong);
    if (long !== undefined)
      return { refusal: `the pod ${long} would have ${long.length} characters; ${MAX_POD_NAME_LENGTH} are allowed` };
    const body = { name, spec: sessionSpec };
    const page = { kind: "session", id: name } as const;
    return { request: { path: "/v1/sessions", planPath: "/v1/plan/sessions", body, page } };
  }
  if (kind === "PinnedReplicaSet") {
    const body = { name, spec: buildSetSpec(spec ?? {}, metadata ?? {}) };
    const page = { kind: "replica-set", id: name } as const;
    return { request: { path: "/v1/replica-sets", planPath: "/v1/plan/replica-sets", body, page } };
  }
  if (JOB_KINDS.has(kind)) {
    const at = encodeURIComponent(document.namespace || namespace);
    const page = { kind: "job", id: `${document.namespace || namespace}/${name}` } as const;
    const { generateName: _, ...kept } = metadata ?? {};
    const body = { ...(value as Fields), metadata: { ...kept, name } };
    return { request: { path: `/v1/jobs/${at}`, planPath: `/v1/plan/jobs/${at}`, body, page } };
  }
  if (kind === "Lease") return { refusal: "a lease is signed with the key of its user: use muster lease order FILE" };
  return { refusal: `a ${kind} is no session, job or replica set: use kubectl apply -f FILE` };
}

function isTooLong(podName: string): boolean {
  return podName.length > MAX_POD_NAME_LENGTH;
}

function buildSessionSpec(spec: Fields): Fields & { readonly components: readonly Fields[] } {
  const { components, scenario, timeout, queueTimeout, ttl, killAfter, ...rest } = spec;
  const ms = (value: unknown): number | undefined => (typeof value === "string" ? parseDuration(value) : undefined);
  const fields = withoutUndefined({
    ...rest,
    scenarioJson: jsonOf(scenario),
    timeoutMs: ms(timeout),
    queueTimeoutMs: ms(queueTimeout),
    ttlMs: ms(ttl),
    killAfterMs: ms(killAfter),
  });
  return { ...fields, components: (components as readonly Fields[]).flatMap(buildComponents) };
}

/** Expands replicas: `server` with replicas 2 is `server-0` and `server-1`. */
function buildComponents({ name, kind, pool, replicas, template, ...rest }: Fields): readonly Fields[] {
  const fields = { ...rest, ...buildPools(pool), kind: String(kind).toUpperCase(), templateJson: jsonOf(template) };
  const component = (named: string): Fields => withoutUndefined({ ...fields, name: named });
  const base = String(name);
  if (typeof replicas !== "number") return [component(base)];
  return Array.from({ length: replicas }, (_, index) => component(`${base}-${index}`));
}

/** Returns the pool fields of a component. A list names the pools in order of preference. */
function buildPools(pool: unknown): Fields {
  if (!Array.isArray(pool)) return { pool };
  const [first, ...otherPools] = pool as readonly unknown[];
  return { pool: first, otherPools: otherPools.length > 0 ? otherPools : undefined };
}

function buildSetSpec(spec: Fields, { labels }: Fields): Fields {
  const { nodeSelector, replicas, allocationStrategy, template, ...rest } = spec;
  const selector =
    typeof nodeSelector === "object" && nodeSelector !== null
      ? Object.entries(nodeSelector)
          .map(([key, value]) => `${key}=${String(value)}`)
          .join(",")
      : nodeSelector;
  return withoutUndefined({
    ...rest,
    nodeSelector: selector,
    replicasDesired: spec["daemon"] === true ? undefined : replicas,
    allocationStrategy: allocationStrategy === "Static" ? "STATIC" : "DYNAMIC",
    templateJson: jsonOf(template),
    labels,
  });
}

function jsonOf(value: unknown): string | undefined {
  return value === undefined ? undefined : JSON.stringify(value);
}

function withoutUndefined(record: Fields): Fields {
  return Object.fromEntries(Object.entries(record).filter(([, value]) => value !== undefined));
}
