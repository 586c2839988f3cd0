import { computeBackoffMs, pause } from "@muster/backoff";
import { throwFault } from "@muster/faults";
import {
  isForbidden,
  listPages,
  unlessFault,
  unlessMissing,
  type CallOptions,
  type KubeCalls,
  type KubeObject,
  type KubeResource,
  type ListPage,
} from "@muster/kube";
import { labels } from "@muster/proto";
import { isSliceNamespace } from "../types/kubernetes.ts";
import { KINDS } from "../types/object-kinds.ts";

/** Name of the ClusterRole of an engine in lease namespaces, and of its binding in each of them. */
const ROLE = "muster-lease-engine";
const RBAC_GROUP = "rbac.authorization.k8s.io";
/** Pauses while a new binding becomes effective, usually immediately. */
const PROPAGATION = { firstMs: 20, maxMs: 1000, totalMs: 10_000 };
const GOING_RETRY_MS = 1000;

/**
 * Wraps the calls of an engine whose cluster-wide rights are limited to namespaces. On the first refusal in a lease namespace it binds its role in that
 * namespace. A refused cluster-wide list is replaced by lists of `own` and of all lease namespaces except slices, whose content belongs to their users. A
 * missing namespace lists as empty.
 */
export function withLeaseRights(calls: KubeCalls, own: string): KubeCalls {
  const grant = grantRights(calls);
  const withGrant = async <Value>(
    namespace: string | undefined,
    options: CallOptions | undefined,
    call: () => Promise<Value>,
  ): Promise<Value> => {
    try {
      return await call();
    } catch (error) {
      if (namespace === undefined || !isForbidden(error)) throw error;
      await grant(namespace, error, getSignal(options));
      return call();
    }
  };
  const listInNamespace = async <Object extends KubeObject>(
    resource: KubeResource & { readonly namespace: string },
    options: CallOptions | undefined,
  ): Promise<ListPage<Object>> => {
    const listing = withGrant(resource.namespace, options, () => calls.list<Object>(resource, options));
    return (await unlessMissing(listing)) ?? { items: [], resourceVersion: "", continue: undefined };
  };
  const listEverywhere = async <Object extends KubeObject>(
    resource: KubeResource,
    options: CallOptions | undefined,
  ): Promise<ListPage<Object>> => {
    try {
      return await calls.list<Object>(resource, options);
    } catch (error) {
      if (!isForbidden(error)) throw error;
    }
    const names = [own];
    const query = { labelSelector: labels.lease };
    for await (const namespaces of listPages<KubeObject>(calls, KINDS.namespace, { query, ...getSignal(options) })) {
      // The content of a terminating namespace is removed with the namespace.
      const there = namespaces.filter(({ metadata }) => metadata?.deletionTimestamp === undefined);
      names.push(...there.map(({ metadata }) => metadata?.name ?? "").filter((name) => !isSliceNamespace(name)));
    }
    // Continue tokens do not span namespaces, so the answer is complete, whatever its limit.
    const items: Object[] = [];
    const list: KubeCalls["list"] = (asked, more) =>
      listInNamespace({ ...asked, namespace: asked.namespace ?? own }, more);
    for (const namespace of names)
      for await (const page of listPages<Object>({ list }, { ...resource, namespace }, options)) items.push(...page);
    return { items, resourceVersion: "", continue: undefined };
  };
  return {
    ...calls,
    create: (resource, object, options) =>
      withGrant(resource.namespace, options, () => calls.create(resource, object, options)),
    get: (resource, name, options) => withGrant(resource.namespace, options, () => calls.get(resource, name, options)),
    list: <Object extends KubeObject>(resource: KubeResource, options?: CallOptions) => {
      const { namespace, plural } = resource;
      if (namespace !== undefined) return listInNamespace<Object>({ ...resource, namespace }, options);
      return plural === KINDS.namespace.plural
        ? calls.list<Object>(resource, options)
        : listEverywhere<Object>(resource, options);
    },
    delete: (resource, name, options) => {
      const removal = () => calls.delete(resource, name, options);
      // Pods of slices are deleted by a cluster-wide right: no binding can be created in a terminating namespace.
      return resource.plural === KINDS.pod.plural ? removal() : withGrant(resource.namespace, options, removal);
    },
  };
}

type Signal = Pick<CallOptions, "signal">;
type Review = KubeObject & { readonly spec: object; readonly status?: { readonly allowed?: boolean } };
type SelfReview = KubeObject & { readonly status?: { readonly userInfo?: { readonly username?: string } } };

const ACCESS = { apiVersion: "authorization.k8s.io/v1", kind: "SelfSubjectAccessReview" };
const ACCESSES = { apiVersion: ACCESS.apiVersion, plural: "selfsubjectaccessreviews" };
const SELF = { apiVersion: "authentication.k8s.io/v1", kind: "SelfSubjectReview" };
const SELVES = { apiVersion: SELF.apiVersion, plural: "selfsubjectreviews" };

/** Binds the role in a lease namespace. Throws the refusal if the binding is already effective, or the namespace does not belong to a lease. */
function grantRights(calls: KubeCalls) {
  const isInForce = async (namespace: string, signal: Signal): Promise<boolean> => {
    const resourceAttributes = { group: "", resource: KINDS.secret.plural, verb: "list", namespace };
    const review: Review = { ...ACCESS, metadata: {}, spec: { resourceAttributes } };
    const { status } = await calls.create(ACCESSES, review, signal);
    return status?.allowed === true;
  };
  return async (namespace: string, refusal: unknown, signal: Signal): Promise<void> => {
    if (await isInForce(namespace, signal)) throw refusal;
    const found = await unlessMissing(calls.get(KINDS.namespace, namespace, signal));
    if (found === undefined) return throwFault({ code: "not_found", kind: "Namespace", id: namespace });
    const { deletionTimestamp, labels: namespaceLabels = {} } = found.metadata ?? {};
    const dependency = `namespace ${namespace}, which is being removed`;
    if (deletionTimestamp !== undefined)
      return throwFault({ code: "unavailable", dependency, retryAfterMs: GOING_RETRY_MS });
    // The engine must not take rights in other namespaces.
    if (!(labels.lease in namespaceLabels) || namespaceLabels[labels.managedBy] !== "muster") throw refusal;
    const { status } = await calls.create<SelfReview>(SELVES, { ...SELF, metadata: {} }, signal);
    const binding = buildBinding(namespace, status?.userInfo?.username ?? "");
    await bind(calls, binding, signal);
    const endsAtMs = performance.now() + PROPAGATION.totalMs;
    for (let attempt = 1; !(await isInForce(namespace, signal)); attempt++) {
      if (performance.now() >= endsAtMs) throw refusal;
      await pause(computeBackoffMs(attempt, PROPAGATION), signal.signal);
    }
  };
}

/** Creates the binding. A binding of this name to another role comes from a user of the slice, and is replaced. */
async function bind(calls: KubeCalls, binding: ReturnType<typeof buildBinding>, signal: Signal): Promise<void> {
  const { name, namespace } = binding.metadata;
  const bindings = { ...KINDS.roleBinding, namespace };
  const create = (): Promise<unknown> => unlessFault(calls.create(bindings, binding, signal), "already_exists");
  if ((await create()) !== undefined) return;
  const found = await unlessMissing(calls.get<Partial<typeof binding> & KubeObject>(bindings, name, signal));
  const isOwn = found?.roleRef?.kind === binding.roleRef.kind && found.roleRef.name === binding.roleRef.name;
  const uid = found?.metadata?.uid;
  if (isOwn || uid === undefined) return;
  await unlessFault(calls.delete(bindings, name, { ...signal, preconditions: { uid } }), "not_found", "conflict");
  await create();
}

function buildBinding(namespace: string, user: string) {
  return {
    apiVersion: KINDS.roleBinding.apiVersion,
    kind: KINDS.roleBinding.kind,
    metadata: { name: ROLE, namespace },
    roleRef: { apiGroup: RBAC_GROUP, kind: "ClusterRole", name: ROLE },
    subjects: [{ apiGroup: RBAC_GROUP, kind: "User", name: user }],
  };
}

function getSignal(options: CallOptions | undefined): Signal {
  return options?.signal === undefined ? {} : { signal: options.signal };
}
