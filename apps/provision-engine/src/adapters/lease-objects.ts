import { computeBackoffMs, pause, type BackoffLimits } from "@muster/backoff";
import { throwFault } from "@muster/faults";
import {
  listPages,
  unlessFault,
  unlessMissing,
  withKubeFault,
  type KubeCalls,
  type KubeObject,
  type KubeResource,
} from "@muster/kube";
import { labels } from "@muster/proto";
import { getOrigin } from "../domain/lease.ts";
import { buildLeaseLabels, buildLeaseSelector, getOwner, type Labels } from "../types/lease-names.ts";
import { KINDS, type ObjectKind } from "../types/object-kinds.ts";
import type { Lease, LeaseObjects, Observation, NewObject } from "../types/workload.ts";
import { releaseTurnWhile } from "../lead/user-turns.ts";

type Patience = BackoffLimits & { readonly totalMs: number };

/** Longer waits fail, so that other calls get their turn; the call is retried. */
const PATIENCE: Patience = { firstMs: 50, maxMs: 2000, totalMs: 30_000 };

/** `installation` is the id of this installation, a label of every object. */
export function makeLeaseObjects(calls: KubeCalls, installation: string, patience: Patience = PATIENCE): LeaseObjects {
  const until = pollUntilReady(patience);
  return {
    untilReady: until,
    find: (kind, at, signal) => find(calls, kind, at, signal),
    ensure: (lease, kind, object, signal) =>
      until(
        () => ensureOnce(calls, lease, kind, withInstallation(object, { [labels.installation]: installation }), signal),
        signal,
      ),
    remove: async (lease, { kinds, namespace }, signal) => {
      for (const kind of kinds)
        await until(async () => {
          const left = await list(calls, lease, { kind, namespace, of: ["this-run", "earlier-run"] }, signal);
          for (const each of left) await remove(calls, kind, each, signal);
          const names = left.map(({ metadata }) => metadata?.name).join(", ");
          return left.length === 0
            ? { kind: "ready", value: undefined }
            : { kind: "pending", because: `the removal of ${kind.kind} ${names}` };
        }, signal);
    },
    list: (lease, kind, namespace, signal) => list(calls, lease, { kind, namespace, of: ["this-run"] }, signal),
  };
}

async function ensureOnce<Object extends KubeObject>(
  calls: KubeCalls,
  lease: Lease,
  kind: ObjectKind,
  object: NewObject<Object>,
  signal: AbortSignal,
): Promise<Observation<Object>> {
  const { name, namespace } = object.metadata;
  const { apiVersion } = kind;
  const metadata = { ...object.metadata, labels: { ...object.metadata.labels, ...buildLeaseLabels(lease) } };
  const wanted = { apiVersion, kind: kind.kind, ...object, metadata };
  const creation = calls.create<Object>(buildResource(kind, namespace), wanted, { signal });
  const made = await withKubeFault(unlessFault(creation, "already_exists"));
  const id = `${kind.kind} ${name}`;
  if (made !== undefined) {
    lease.onCreated?.(id);
    return { kind: "ready", value: made };
  }
  const found = await find<Object>(calls, kind, { name, ...(namespace !== undefined && { namespace }) }, signal);
  const owner = found && getOwner(found.metadata?.labels, lease);
  const isGoing = found?.metadata?.deletionTimestamp !== undefined;
  if (owner === "other" && !isGoing) return throwFault({ code: "already_exists", kind: kind.kind, id: name });
  if (owner === "later-run")
    return throwFault({ code: "conflict", id, expectedRevision: getOrigin(lease).run, actualRevision: 0 });
  if (found !== undefined && owner === "this-run" && !isGoing) return { kind: "ready", value: found };
  if (found !== undefined) await remove(calls, kind, found, signal);
  return { kind: "pending", because: `the removal of an earlier ${id}` };
}

/** Adds the label to the object and its pods. No selector uses it: objects of earlier versions lack it. */
function withInstallation<Object extends KubeObject>(object: NewObject<Object>, mark: Labels): NewObject<Object> {
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
  return withKubeFault(unlessMissing(calls.get<Object>(buildResource(kind, namespace), name, { signal })));
}

/** Lists the objects of one kind that belong to the selected runs of the lease. */
async function list<Object extends KubeObject>(
  calls: KubeCalls,
  lease: Lease,
  what: {
    readonly kind: ObjectKind;
    readonly namespace: string | undefined;
    readonly of: readonly ReturnType<typeof getOwner>[];
  },
  signal: AbortSignal,
): Promise<readonly Object[]> {
  const query = { labelSelector: buildLeaseSelector(getOrigin(lease).id) };
  const { items } = await withKubeFault(
    calls.list<Object>(buildResource(what.kind, what.namespace), { query, signal }),
  );
  return items.filter(({ metadata }) => what.of.includes(getOwner(metadata?.labels, lease)));
}

async function remove(
  calls: KubeCalls,
  kind: ObjectKind,
  { metadata }: KubeObject,
  signal: AbortSignal,
): Promise<void> {
  const { name = "", namespace, uid, deletionTimestamp } = metadata ?? {};
  if (deletionTimestamp !== undefined) return endPods(calls, kind, name, signal);
  for (const spared of kind.keptBy ?? []) await requireNone(calls, spared, name, signal);
  const removal = calls.delete(buildResource(kind, namespace), name, {
    propagationPolicy: kind.hasMembers === true ? "Foreground" : "Background",
    signal,
    ...(uid !== undefined && { preconditions: { uid } }),
  });
  // On a conflict another object has the name by now; the next attempt handles that object.
  await withKubeFault(unlessFault(removal, "not_found", "conflict"));
}

/** A namespace that is being deleted accepts no new pods, so this list is complete. The next attempt lists pods that were just created. */
async function endPods(
  calls: KubeCalls,
  { podGraceSeconds }: ObjectKind,
  namespace: string,
  signal: AbortSignal,
): Promise<void> {
  if (podGraceSeconds === undefined) return;
  const pods = buildResource(KINDS.pod, namespace);
  for await (const { metadata } of listAll(calls, pods, signal)) {
    const { name = "", uid, deletionTimestamp, deletionGracePeriodSeconds = 0 } = metadata ?? {};
    if (deletionTimestamp !== undefined && deletionGracePeriodSeconds <= podGraceSeconds) continue;
    const removal = calls.delete(pods, name, {
      gracePeriodSeconds: podGraceSeconds,
      signal,
      ...(uid !== undefined && { preconditions: { uid } }),
    });
    await withKubeFault(unlessFault(removal, "not_found", "conflict"));
  }
}

/** Objects without a known lease are kept: records may be lost, or written by a later version. */
async function requireNone(calls: KubeCalls, kind: ObjectKind, namespace: string, signal: AbortSignal): Promise<void> {
  for await (const { metadata } of listAll(calls, buildResource(kind, namespace), signal)) {
    if (metadata?.deletionTimestamp !== undefined) continue;
    const reason = `it holds ${kind.kind} ${metadata?.name ?? ""}, which belongs to no known lease; it is removed once that is gone`;
    throwFault({ code: "invalid_request", field: `Namespace ${namespace}`, reason });
  }
}

/** Lists in pages, because users decide how many large objects a namespace has. */
async function* listAll(calls: KubeCalls, resource: KubeResource, signal: AbortSignal): AsyncGenerator<KubeObject> {
  const list: KubeCalls["list"] = (...asked) => withKubeFault(calls.list(...asked));
  for await (const page of listPages<KubeObject>({ list }, resource, { signal })) yield* page;
}

function pollUntilReady(patience: Patience): LeaseObjects["untilReady"] {
  return async (observe, signal) => {
    const endsAtMs = performance.now() + patience.totalMs;
    for (let attempt = 1; ; attempt++) {
      signal.throwIfAborted();
      const seen = await observe();
      if (seen.kind === "ready") return seen.value;
      if (performance.now() >= endsAtMs)
        throwFault({ code: "deadline_exceeded", operation: seen.because, timeoutMs: patience.totalMs });
      await releaseTurnWhile(() => pause(computeBackoffMs(attempt, patience), signal));
    }
  };
}

function buildResource({ apiVersion, plural }: ObjectKind, namespace: string | undefined): KubeResource {
  return { apiVersion, plural, ...(namespace !== undefined && { namespace }) };
}
