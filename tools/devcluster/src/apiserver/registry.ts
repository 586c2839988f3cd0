import { admitObject } from "./admission.ts";
import { decideDeletion, type DeleteOptions, isDoneDeleting } from "./deletion.ts";
import { type JsonObject, getObject, setAt, isSameJson, getText, removeKey } from "./json.ts";
import { namespaces } from "./kinds/core.ts";
import {
  checkMetadata,
  checkMetadataChange,
  isDeleting,
  keepServerMetadata,
  getNamespace,
  getName,
  nextGeneration,
  getRevision,
  formatTimestamp,
  getUid,
} from "./metadata.ts";
import { generateName } from "./names.ts";
import { buildApiVersion, buildBucketName, buildKey, type Resource } from "./resource.ts";
import {
  alreadyExists,
  badRequest,
  conflict,
  fail,
  forbidden,
  invalid,
  invalidValue,
  MODIFIED,
  notFound,
  type Problem,
} from "./status.ts";
import { type ObjectStore, buildRemovedObject } from "./store.ts";

export type RegistryDeps = {
  readonly store: ObjectStore;
  readonly nowMs: () => number;
  readonly newUid: () => string;
  /** Returns an integer from 0 up to the argument, exclusive. */
  readonly random: (below: number) => number;
  /** Returns why a new object is refused; undefined: it is not. */
  readonly refuse: (resource: Resource, namespace: string, object: JsonObject) => string | undefined;
};

export type ObjectName = { readonly resource: Resource; readonly namespace: string; readonly name: string };

export type WriteResult = { readonly object: JsonObject; readonly created: boolean };

export type ObjectUpdate = {
  readonly subresource?: "status" | "finalize" | undefined;
  /** Returns the new state from the current one, which is undefined if an update may create. */
  readonly change: (current: JsonObject | undefined) => JsonObject;
  /** Creates a missing object, even if the resource does not allow it. */
  readonly upsert?: boolean;
  readonly dryRun: boolean;
};

/** Creates, updates and deletes by the rules of Kubernetes. Each call is synchronous, so no two writes interleave; refusals are thrown as failures. */
export type Registry = {
  find(target: ObjectName): JsonObject | undefined;
  get(target: ObjectName): JsonObject;
  create(resource: Resource, namespace: string, body: JsonObject, dryRun: boolean): JsonObject;
  update(target: ObjectName, update: ObjectUpdate): WriteResult;
  /** Writes a pod with its node, which an update may not change. */
  bind(target: ObjectName, pod: JsonObject, dryRun: boolean): void;
  /** `gone` is false while the object waits for something. */
  delete(target: ObjectName, options: DeleteOptions, dryRun: boolean): Removed;
};

const GENERATE_ATTEMPTS = 8;

export function openRegistry(deps: RegistryDeps): Registry {
  return {
    find: (target) => stored(deps, target),
    get: (target) => stored(deps, target) ?? fail(notFound(target.resource, target.name)),
    create: (resource, namespace, body, dryRun) => create(deps, resource, { namespace, body, dryRun }),
    update: (target, wanted) => update(deps, target, wanted),
    bind: ({ resource, namespace, name }, pod, dryRun) => {
      if (!dryRun) deps.store.commit(buildBucketName(resource), buildKey(namespace, name), pod);
    },
    delete: (target, options, dryRun) => remove(deps, target, options, dryRun),
  };
}

function stored({ store }: RegistryDeps, { resource, namespace, name }: ObjectName): JsonObject | undefined {
  return store.get(buildBucketName(resource), buildKey(namespace, name));
}

type Creation = {
  readonly namespace: string;
  readonly body: JsonObject;
  readonly dryRun: boolean;
};

function create(deps: RegistryDeps, resource: Resource, { namespace, body, dryRun }: Creation): JsonObject {
  const { store } = deps;
  const bucket = buildBucketName(resource);
  const isFree = (name: string): boolean => store.get(bucket, buildKey(namespace, name)) === undefined;
  const named = nameObject(resource, namespace, body, (prefix) => freeName(prefix, isFree, deps.random));
  const name = getName(named);
  if (resource.namespaced) requireNamespace(store, resource, namespace, name);
  if (resource.closed !== undefined) fail(forbidden(resource, name, resource.closed));
  const identified = identify(resource, named, deps);
  const others = (): JsonObject[] => store.entries(bucket).map(([, other]) => other);
  const filled = admitObject(store, resource, resource.withoutStatus(resource.defaults(identified)));
  const object = resource.allocate(filled, others);
  refuseInvalid(resource, name, [...checkMetadata(object, resource.checkName), ...resource.validate(object)]);
  const refused = deps.refuse(resource, namespace, object);
  if (refused !== undefined) fail(forbidden(resource, name, refused));
  const existing = store.get(bucket, buildKey(namespace, name));
  if (existing !== undefined) fail(alreadyExists(resource, name, isDeleting(existing)));
  if (dryRun) return object;
  return store.commit(bucket, buildKey(namespace, name), object).after ?? object;
}

function update(deps: RegistryDeps, target: ObjectName, wanted: ObjectUpdate): WriteResult {
  const { subresource, change, upsert, dryRun } = wanted;
  const { resource, namespace, name } = target;
  const before = stored(deps, target);
  if (before === undefined) {
    if (subresource !== undefined || (upsert !== true && !resource.createOnUpdate)) {
      return fail(notFound(resource, name));
    }
    const named = setAt(change(undefined), ["metadata", "name"], name);
    const body = setAt(named, ["metadata", "resourceVersion"], undefined);
    return { object: create(deps, resource, { namespace, body, dryRun }), created: true };
  }
  const proposed = change(before);
  refuseStale(resource, before, proposed);
  const others = (): JsonObject[] =>
    deps.store
      .entries(buildBucketName(resource))
      .flatMap(([key, other]) => (key === buildKey(namespace, name) ? [] : [other]));
  const after = nextState(resource, before, { proposed, subresource, others });
  if (isSameJson(after, before) || dryRun) return { object: after, created: false };
  const done = isDoneDeleting(after);
  const { after: written } = deps.store.commit(
    buildBucketName(resource),
    buildKey(namespace, name),
    done ? undefined : after,
  );
  return { object: written ?? after, created: false };
}

type Removed = { readonly object: JsonObject; readonly gone: boolean };

function remove(deps: RegistryDeps, target: ObjectName, options: DeleteOptions, dryRun: boolean): Removed {
  const { resource, namespace, name } = target;
  const { store } = deps;
  const before = stored(deps, target) ?? fail(notFound(resource, name));
  const kept = resource.keepAlways(before);
  if (kept !== undefined) fail(forbidden(resource, name, kept));
  // A precondition applies to the object before its deletion was held.
  const held = isDeleting(before) ? before : resource.holdDeletion(before, formatTimestamp(deps.nowMs()));
  const deletion = decideDeletion(resource, held, options, deps.nowMs());
  const bucket = buildBucketName(resource);
  const key = buildKey(namespace, name);
  switch (deletion.kind) {
    case "refuse":
      return fail(conflict({ group: resource.group, plural: resource.kind }, name, deletion.because));
    case "nothing":
      return { object: before, gone: false };
    case "mark": {
      const marked = resource.whileDeleting(deletion.object);
      const unchanged = dryRun || isSameJson(marked, before);
      const written = unchanged ? marked : (store.commit(bucket, key, marked).after ?? marked);
      return { object: written, gone: false };
    }
    case "remove": {
      if (dryRun) return { object: deletion.object, gone: true };
      // Watchers of a pod that stops with grace see the mark before the end, as with any other grace period.
      if (!isSameJson(deletion.object, before)) store.commit(bucket, key, deletion.object);
      const { before: last, revision } = store.commit(bucket, key, undefined);
      return { object: buildRemovedObject(last ?? deletion.object, revision), gone: true };
    }
  }
}

function nameObject(
  resource: Resource,
  namespace: string,
  body: JsonObject,
  generate: (prefix: string) => string,
): JsonObject {
  const revision = getRevision(body);
  if (revision !== "" && revision !== "0") {
    fail({ code: 500, reason: "", message: "resourceVersion should not be set on objects to be created" });
  }
  const own = getNamespace(body);
  if (own !== "" && own !== namespace) {
    fail(badRequest("the namespace of the provided object does not match the namespace sent on the request"));
  }
  const prefix = getText(body, "metadata", "generateName");
  const name = getName(body) === "" && prefix !== "" ? generate(prefix) : getName(body);
  const named = setAt(body, ["metadata", "name"], name);
  return resource.namespaced ? setAt(named, ["metadata", "namespace"], namespace) : named;
}

function freeName(prefix: string, isFree: (name: string) => boolean, random: (below: number) => number): string {
  for (let attempt = 1; ; attempt++) {
    const name = generateName(prefix, random);
    if (isFree(name) || attempt >= GENERATE_ATTEMPTS) return name;
  }
}

function requireNamespace(store: ObjectStore, resource: Resource, namespace: string, name: string): void {
  const found = store.get(buildBucketName(namespaces), buildKey("", namespace));
  if (found === undefined) return fail(notFound(namespaces, namespace));
  if (!isDeleting(found)) return;
  const because = `unable to create new content in namespace ${namespace} because it is being terminated`;
  const message = `namespace ${namespace} is being terminated`;
  fail(forbidden(resource, name, because, [{ reason: "NamespaceTerminating", message, field: "metadata.namespace" }]));
}

/** The object with the fields that only the server sets. */
function identify(resource: Resource, body: JsonObject, { newUid, nowMs }: RegistryDeps): JsonObject {
  const metadata = removeKey(
    getObject(body, "metadata"),
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "resourceVersion",
    "generation",
    "selfLink",
    "managedFields",
  );
  return {
    ...removeKey(body, "apiVersion", "kind"),
    kind: resource.kind,
    apiVersion: buildApiVersion(resource),
    metadata: {
      ...metadata,
      uid: newUid(),
      ...(resource.counted ? { generation: 1 } : {}),
      creationTimestamp: formatTimestamp(nowMs()),
    },
  };
}

function refuseInvalid(resource: Resource, name: string, problems: readonly Problem[]): void {
  if (problems.length > 0) fail(invalid(resource, name, problems));
}

function refuseStale(resource: Resource, before: JsonObject, wanted: JsonObject): void {
  const name = getName(before);
  const uid = getUid(wanted);
  const revision = getRevision(wanted);
  if (uid !== "" && uid !== getUid(before)) {
    fail(
      conflict(
        resource,
        name,
        `Precondition failed: UID in precondition: ${uid}, UID in object meta: ${getUid(before)}`,
      ),
    );
  }
  if (revision !== "" && revision !== "0") {
    if (revision !== getRevision(before)) fail(conflict(resource, name, MODIFIED));
  } else if (!resource.unconditionalUpdate) {
    const problem = invalidValue("metadata.resourceVersion", 0, "must be specified for an update");
    fail(invalid({ group: resource.group, kind: resource.plural }, name, [problem]));
  }
}

/** The state after an update: the fields that each subresource may write, with server metadata kept, checked. */
function nextState(
  resource: Resource,
  before: JsonObject,
  update: {
    readonly proposed: JsonObject;
    readonly subresource: ObjectUpdate["subresource"];
    readonly others: () => readonly JsonObject[];
  },
): JsonObject {
  const { proposed: wanted, subresource, others } = update;
  const whole = keepServerMetadata(before, wanted);
  const name = getName(before);
  if (subresource === "finalize")
    return setAt(before, ["spec", "finalizers"], getObject(wanted, "spec")["finalizers"] ?? []);
  if (subresource === "status") {
    // A writer of the status may not change owners.
    const owned = setAt(whole, ["metadata", "ownerReferences"], getObject(before, "metadata")["ownerReferences"]);
    const after = { ...before, metadata: getObject(owned, "metadata") };
    refuseInvalid(resource, name, [...checkMetadata(after, resource.checkName), ...checkMetadataChange(before, after)]);
    const reported = setAt(after, ["status"], wanted["status"]);
    refuseInvalid(resource, name, resource.validateStatus(before, reported));
    return reported;
  }
  const identified = { ...whole, kind: before["kind"] ?? resource.kind, apiVersion: before["apiVersion"] ?? "v1" };
  const filled = resource.allocate(resource.carryOver(before, resource.defaults(identified)), others);
  const after = resource.subresources.includes("status") ? setAt(filled, ["status"], before["status"]) : filled;
  refuseInvalid(resource, name, [
    ...checkMetadata(after, resource.checkName),
    ...checkMetadataChange(before, after),
    ...resource.validateUpdate(before, after),
    ...resource.validateChange(before, after),
  ]);
  const changed = resource.counted && !isSameJson(resource.desiredOf(after), resource.desiredOf(before));
  return changed ? nextGeneration(after) : after;
}
