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
import { originOf } from "../domain/lease.ts";
import { leaseLabels, leaseSelector, ownerOf, type Labels } from "../types/lease-names.ts";
import { KINDS, type ObjectKind } from "../types/object-kinds.ts";
import type { Lease, LeaseObjects, Look, NewObject } from "../types/workload.ts";
import { aside } from "../lead/user-turns.ts";

export type Patience = { readonly firstMs: number; readonly maxMs: number; readonly totalMs: number };

/** What takes longer gives its place among the calls to others, and is asked for again. */
const PATIENCE: Patience = { firstMs: 50, maxMs: 2000, totalMs: 30_000 };

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
