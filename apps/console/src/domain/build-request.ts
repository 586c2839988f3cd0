import { parseDuration } from "@muster/faults";
import { countPoolOptions, listPoolOptions, MAX_POOL_OPTIONS } from "@muster/resources";
import { MAX_POD_NAME_LENGTH } from "@muster/session-limits";
import type { Pool } from "../adapters/messages.ts";
import type { ReadDocument } from "./read-documents.ts";

/** The request to the gateway for a document. */
export type DocumentRequest = {
  /** The path to which the document is sent. */
  readonly path: string;
  /** The path at which the gateway checks it first; undefined: the console plans it with the pools that it shows. */
  readonly planPath: string | undefined;
  readonly body: unknown;
  /** The page of the created item. */
  readonly page: { readonly kind: "session" | "job" | "replica-set"; readonly id: string };
};

export type BuiltRequest = { readonly request: DocumentRequest } | { readonly refusal: string };

export type RequestContext = {
  /** The namespace of jobs that name none. */
  readonly namespace: string;
  /** The text that completes `generateName`. */
  readonly suffix: string;
};

type Fields = Readonly<Record<string, unknown>>;

const JOB_KINDS: ReadonlySet<string> = new Set(["Job", "TFJob", "PyTorchJob", "MPIJob", "JAXJob", "JobSet"]);

/** Builds the request for a document that fits its schema. */
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
    return { request: { path: "/v1/sessions", planPath: undefined, body, page: { kind: "session", id: name } } };
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

/** A list has the pools in order of preference. */
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

/** The machines that a session needs of a pool, and whether the pool has them. */
export type PoolNeed = {
  readonly pool: string;
  readonly needed: number;
  readonly because: string;
  readonly kind: "free" | "waits" | "too-small" | "unknown";
};

type Accepting = { readonly pool: string; readonly otherPools?: readonly string[] };

/**
 * Plans the machines that a session would request. Of components that accept several pools it shows the first choice that is free, else the first one that can
 * ever be free. A pool that does not exist refuses the session, so its choice comes first. Only the ledger compares parts of machines.
 */
export function planSession(body: unknown, pools: ReadonlyMap<string, Pool>): readonly PoolNeed[] {
  const { components } = (body as { readonly spec: { readonly components: readonly Accepting[] } }).spec;
  // The session is refused with more combinations, which are too many to list.
  const isListed = countPoolOptions(components) <= MAX_POOL_OPTIONS;
  const options = (isListed ? listPoolOptions(components) : [components]).map((option) => planOption(option, pools));
  const find = (...kinds: readonly PoolNeed["kind"][]) =>
    options.find((needs) => needs.every(({ kind }) => kinds.includes(kind)));
  const unknown = options.find((needs) => needs.some(({ kind }) => kind === "unknown"));
  return unknown ?? find("free") ?? find("free", "waits") ?? options[0] ?? [];
}

function planOption(components: readonly Accepting[], pools: ReadonlyMap<string, Pool>): readonly PoolNeed[] {
  return [...Map.groupBy(components, ({ pool }) => pool)].map(([pool, { length: needed }]) => {
    return { pool, needed, ...planNeed(needed, pools.get(pool)) };
  });
}

function planNeed(needed: number, pool: Pool | undefined): Pick<PoolNeed, "kind" | "because"> {
  if (pool === undefined) return { kind: "unknown", because: "the pool does not exist" };
  const { available } = pool;
  if (available >= needed) return { kind: "free", because: `${available} are free` };
  const largest = Math.max(pool.capacity, pool.elasticMax);
  if (largest < needed) return { kind: "too-small", because: `the pool has ${largest} at most` };
  return { kind: "waits", because: `${available} are free, so that it waits` };
}
