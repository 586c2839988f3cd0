import { backoffMs, pause } from "@muster/backoff";
import { FaultError, throwFault } from "@muster/faults";
import {
  kubeFault,
  listPages,
  unlessFault,
  unlessMissing,
  type KubeCalls,
  type KubeObject,
  type KubeResource,
} from "@muster/kube";
import { labels } from "@muster/proto";
import { originOf, type LeaseRecord } from "../domain/lease.ts";
import { leaseLabels, leaseSelector, ownerOf, type Labels } from "../workloads/lease-labels.ts";
import { aside } from "../lead/user-turns.ts";
import type { AskedLease } from "../workloads/workload.ts";
import { KINDS } from "./object-kinds.ts";

export type ObjectKind = Pick<KubeResource, "apiVersion" | "plural"> & {
  readonly kind: string;
  /** Kubernetes makes others of it, which are gone before it is. */
  readonly hasMembers?: true;
  /** Of a namespace: it stays while one of these is in it that is not going already, whosever it is. */
  readonly spares?: readonly ObjectKind[];
  /** Of a namespace: once it is going, each pod in it has no more than so many seconds to end, whatever it says itself. */
  readonly podGraceSeconds?: number;
};

/** Its namespace is that of the object; apiVersion, kind and labels are added. */
export type NewObject<Object> = Object & { readonly metadata: { readonly name: string; readonly namespace?: string } };

export type Lease = Pick<LeaseRecord, "order" | "run" | "madeFor"> & Pick<AskedLease, "made">;

export type Look<Value> =
  { readonly is: "there"; readonly value: Value } | { readonly is: "awaited"; readonly because: string };

/**
 * Objects of Kubernetes that are a lease's. Everything rejects with FaultError: with unavailable while the API server is away or overloaded, with deadline_exceeded when
 * something took too long, with invalid_request and the server's words where it refuses.
 */
export type LeaseObjects = {
  /**
   * Makes the object for this run of the lease, or finds it made. What an earlier run has left under the name goes first, and what is going is waited for. Rejects with
   * already_exists where the name is somebody else's, and with conflict where a later run has it.
   */
  make<Object extends KubeObject>(
    lease: Lease,
    kind: ObjectKind,
    object: NewObject<Object>,
    signal: AbortSignal,
  ): Promise<Object>;
  /**
   * Removes what is there of the lease's run and of earlier ones, kind by kind, with what Kubernetes has made of it. Resolves once it is gone; at each look the pods of a namespace whose kind says so are given less time. Rejects with invalid_request, naming it, while something is in a
   * namespace that its kind spares.
   */
  takeDown(
    lease: Lease,
    from: { readonly kinds: readonly ObjectKind[]; readonly namespace?: string },
    signal: AbortSignal,
  ): Promise<void>;
  /** Undefined: there is none. */
  find<Object extends KubeObject>(
    kind: ObjectKind,
    at: { readonly name: string; readonly namespace?: string },
    signal: AbortSignal,
  ): Promise<Object | undefined>;
  /** What this run of the lease has of one kind, made by whomever. */
  list<Object extends KubeObject>(
    lease: Lease,
    kind: ObjectKind,
    namespace: string,
    signal: AbortSignal,
  ): Promise<readonly Object[]>;
  /** Looks until it is there. Rejects with deadline_exceeded, and why, when that takes long: the caller is called again. */
  until<Value>(look: () => Promise<Look<Value>>, signal: AbortSignal): Promise<Value>;
};

export type Patience = { readonly firstMs: number; readonly mostMs: number; readonly totalMs: number };

/** What takes longer gives its place among the calls to others, and is asked for again. */
const PATIENCE: Patience = { firstMs: 50, mostMs: 2000, totalMs: 30_000 };

/** `installation`: id of ours, which all that is made carries. */
export function leaseObjects(calls: KubeCalls, installation: string, patience: Patience = PATIENCE): LeaseObjects {
  const until = untilThere(patience);
  return {
    until,
    find: (kind, at, signal) => find(calls, kind, at, signal),
    make: (lease, kind, object, signal) =>
      until(
        () => makeOnce(calls, lease, kind, withMark(object, { [labels.installation]: installation }), signal),
        signal,
      ),
    takeDown: async (lease, { kinds, namespace }, signal) => {
      for (const kind of kinds)
        await until(async () => {
          const left = await list(calls, lease, { kind, namespace, of: ["this-run", "earlier-run"] }, signal);
          for (const each of left) await remove(calls, kind, each, signal);
          const names = left.map(({ metadata }) => metadata?.name).join(", ");
          return left.length === 0
            ? { is: "there", value: undefined }
            : { is: "awaited", because: `the removal of ${kind.kind} ${names}` };
        }, signal);
    },
    list: (lease, kind, namespace, signal) => list(calls, lease, { kind, namespace, of: ["this-run"] }, signal),
  };
}

async function makeOnce<Object extends KubeObject>(
  calls: KubeCalls,
  lease: Lease,
  kind: ObjectKind,
  object: NewObject<Object>,
  signal: AbortSignal,
): Promise<Look<Object>> {
  const { name, namespace } = object.metadata;
  const { apiVersion } = kind;
  const metadata = { ...object.metadata, labels: { ...object.metadata.labels, ...leaseLabels(lease) } };
  const wanted = { apiVersion, kind: kind.kind, ...object, metadata };
  const creation = calls.create<Object>(resourceOf(kind, namespace), wanted, { signal });
  const made = await faulted(unlessFault(creation, "already_exists"));
  const id = `${kind.kind} ${name}`;
  if (made !== undefined) {
    lease.made?.(id);
    return { is: "there", value: made };
  }
  const found = await find<Object>(calls, kind, { name, ...(namespace !== undefined && { namespace }) }, signal);
  const owner = found && ownerOf(found.metadata?.labels, lease);
  const isGoing = found?.metadata?.deletionTimestamp !== undefined;
  if (owner === "other" && !isGoing) return throwFault({ code: "already_exists", kind: kind.kind, id: name });
  if (owner === "later-run")
    return throwFault({ code: "conflict", id, expectedRevision: originOf(lease).run, actualRevision: 0 });
  if (found !== undefined && owner === "this-run" && !isGoing) return { is: "there", value: found };
  if (found !== undefined) await remove(calls, kind, found, signal);
  return { is: "awaited", because: `the removal of an earlier ${id}` };
}

/** Also on the pods that Kubernetes makes of it. No selector has it: objects from before there were ids do not carry it. */
function withMark<Object extends KubeObject>(object: NewObject<Object>, mark: Labels): NewObject<Object> {
  const { metadata, spec } = object as NewObject<KubeObject> & { readonly spec?: { readonly template?: KubeObject } };
  const marked = { ...object, metadata: { ...metadata, labels: { ...metadata.labels, ...mark } } };
  const { template } = spec ?? {};
  if (template === undefined) return marked;
  const podLabels = { ...template.metadata?.labels, ...mark };
  return {
    ...marked,
    spec: { ...spec, template: { ...template, metadata: { ...template.metadata, labels: podLabels } } },
  };
}

function find<Object extends KubeObject>(
  calls: KubeCalls,
  kind: ObjectKind,
  { name, namespace }: { readonly name: string; readonly namespace?: string },
  signal: AbortSignal,
): Promise<Object | undefined> {
  return faulted(unlessMissing(calls.get<Object>(resourceOf(kind, namespace), name, { signal })));
}

/** What runs of the lease have of one kind. */
async function list<Object extends KubeObject>(
  calls: KubeCalls,
  lease: Lease,
  what: {
    readonly kind: ObjectKind;
    readonly namespace: string | undefined;
    readonly of: readonly ReturnType<typeof ownerOf>[];
  },
  signal: AbortSignal,
): Promise<readonly Object[]> {
  const query = { labelSelector: leaseSelector(originOf(lease).id) };
  const { items } = await faulted(calls.list<Object>(resourceOf(what.kind, what.namespace), { query, signal }));
  return items.filter(({ metadata }) => what.of.includes(ownerOf(metadata?.labels, lease)));
}

async function remove(
  calls: KubeCalls,
  kind: ObjectKind,
  { metadata }: KubeObject,
  signal: AbortSignal,
): Promise<void> {
  const { name = "", namespace, uid, deletionTimestamp } = metadata ?? {};
  if (deletionTimestamp !== undefined) return endPods(calls, kind, name, signal);
  for (const spared of kind.spares ?? []) await requireNone(calls, spared, name, signal);
  const removal = calls.delete(resourceOf(kind, namespace), name, {
    propagationPolicy: kind.hasMembers === true ? "Foreground" : "Background",
    signal,
    ...(uid !== undefined && { preconditions: { uid } }),
  });
  // Another one has the name by now: that is looked at next.
  await faulted(unlessFault(removal, "not_found", "conflict"));
}

/** Nothing is made any more in a namespace that is going, so that what is seen now is all that there is, or was made in the very moment and is seen at the next look. */
async function endPods(
  calls: KubeCalls,
  { podGraceSeconds }: ObjectKind,
  namespace: string,
  signal: AbortSignal,
): Promise<void> {
  if (podGraceSeconds === undefined) return;
  const pods = resourceOf(KINDS.pod, namespace);
  for await (const { metadata } of everyOf(calls, pods, signal)) {
    const { name = "", uid, deletionTimestamp, deletionGracePeriodSeconds = 0 } = metadata ?? {};
    if (deletionTimestamp !== undefined && deletionGracePeriodSeconds <= podGraceSeconds) continue;
    const removal = calls.delete(pods, name, {
      gracePeriodSeconds: podGraceSeconds,
      signal,
      ...(uid !== undefined && { preconditions: { uid } }),
    });
    await faulted(unlessFault(removal, "not_found", "conflict"));
  }
}

/** Records may be lost, or be written by a later version: what nobody knows of any more is not lost with them. */
async function requireNone(calls: KubeCalls, kind: ObjectKind, namespace: string, signal: AbortSignal): Promise<void> {
  for await (const { metadata } of everyOf(calls, resourceOf(kind, namespace), signal)) {
    if (metadata?.deletionTimestamp !== undefined) continue;
    const reason = `it holds ${kind.kind} ${metadata?.name ?? ""}, which belongs to no known lease; it is removed once that is gone`;
    throwFault({ code: "invalid_request", field: `Namespace ${namespace}`, reason });
  }
}

/** Pages: users decide how large the objects of a namespace are together. */
async function* everyOf(calls: KubeCalls, resource: KubeResource, signal: AbortSignal): AsyncGenerator<KubeObject> {
  const list: KubeCalls["list"] = (...asked) => faulted(calls.list(...asked));
  for await (const page of listPages<KubeObject>({ list }, resource, { signal })) yield* page;
}

function untilThere(patience: Patience): LeaseObjects["until"] {
  return async (look, signal) => {
    const endsAtMs = performance.now() + patience.totalMs;
    for (let attempt = 1; ; attempt++) {
      signal.throwIfAborted();
      const seen = await look();
      if (seen.is === "there") return seen.value;
      if (performance.now() >= endsAtMs)
        throwFault({ code: "deadline_exceeded", operation: seen.because, timeoutMs: patience.totalMs });
      await aside(() => pause(backoffMs(attempt, patience), signal));
    }
  };
}

function resourceOf({ apiVersion, plural }: ObjectKind, namespace: string | undefined): KubeResource {
  return { apiVersion, plural, ...(namespace !== undefined && { namespace }) };
}

/** Rejects with the FaultError of a failed call; the error of one that was cancelled passes unchanged. */
export async function faulted<Value>(call: Promise<Value>): Promise<Value> {
  try {
    return await call;
  } catch (error) {
    const fault = kubeFault(error);
    if (fault === undefined || fault.code === "cancelled") throw error;
    throw new FaultError(fault, { cause: error });
  }
}
