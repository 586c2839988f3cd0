import type { RoleBook } from "./access/decide-access.ts";
import type { User } from "./access/user.ts";
import type { Schema } from "./definitions.ts";
import type { JsonValue, JsonObject } from "./json.ts";
import { getName, getNamespace } from "./metadata.ts";
import type { Check } from "./names.ts";
import { decodeObject, type DecodedObject } from "./schema.ts";
import type { SelectableFields } from "./selectors.ts";
import type { Problem } from "./status.ts";
import { AGE, type Column, NAME } from "./table.ts";

/** The properties that differ between resources; the rest of the server is the same for all. */
export type Resource = {
  /** "" for the core group. */
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly plural: string;
  readonly singular: string;
  readonly shortNames: readonly string[];
  readonly categories: readonly string[];
  readonly namespaced: boolean;
  readonly subresources: readonly Subresource[];
  /** Schema of the kind; undefined for a built-in kind, whose schema is known by its name. */
  readonly schema: Schema | undefined;
  /** Takes the fields of the resource from a body, or from a patched form of the stored object; `wrong` refuses a value of the wrong type. */
  readonly decode: (body: JsonObject, wrong: (because: string) => never, stored?: JsonObject) => DecodedObject;
  readonly checkName: Check;
  readonly fields: SelectableFields;
  readonly columns: readonly Column[];
  /** Adds the defaults of Kubernetes to a new object. */
  readonly defaults: (object: JsonObject) => JsonObject;
  /** Returns the errors in an object beyond its metadata and the types of its fields. */
  readonly validate: (object: JsonObject) => readonly Problem[];
  /** As `validate`, for the next state of an object. */
  readonly validateUpdate: (before: JsonObject, after: JsonObject) => readonly Problem[];
  /** Returns the changes that are not allowed. */
  readonly validateChange: (before: JsonObject, after: JsonObject) => readonly Problem[];
  /** Copies the fields of the kind that an update must keep from the old object, whatever the new object has. */
  readonly carryOver: (before: JsonObject, after: JsonObject) => JsonObject;
  /** Sets missing values that must differ from those of all others, such as an address. */
  readonly allocate: (object: JsonObject, others: () => readonly JsonObject[]) => JsonObject;
  /** Returns why an object may never be deleted; undefined: it may. */
  readonly keepAlways: (object: JsonObject) => string | undefined;
  /** Changes an object in deletion beyond its metadata. */
  readonly whileDeleting: (object: JsonObject) => JsonObject;
  /** `metadata.generation` counts changes of the desired state, which is the spec by default. */
  readonly counted: boolean;
  readonly desiredOf: (object: JsonObject) => JsonValue | undefined;
  /** Removes the fields that a new object does not have, whatever is posted. */
  readonly withoutStatus: (object: JsonObject) => JsonObject;
  /** Returns the errors in an object whose status is written. */
  readonly validateStatus: (before: JsonObject, after: JsonObject) => readonly Problem[];
  /** Changes the stored object at the start of its deletion. */
  readonly holdDeletion: (object: JsonObject, time: string) => JsonObject;
  /** Why no new objects are accepted; undefined: they are. */
  readonly closed: string | undefined;
  /** Whether it supports strategic merge patches. */
  readonly patchesStrategically: boolean;
  /** Accepts an update without a resource version. */
  readonly unconditionalUpdate: boolean;
  /** An update of an object that does not exist creates it. */
  readonly createOnUpdate: boolean;
  /** A deletion answers with the removed object instead of a Status. */
  readonly deleteReturnsObject: boolean;
  /** Returns the grace period of a deletion, in seconds; undefined for resources without one. */
  readonly gracePeriodSeconds: ((object: JsonObject, requested: number | undefined) => number) | undefined;
  /** The immediate answer to a posted object, by its sender; such objects are not stored, and support nothing else. */
  readonly answer: ((object: JsonObject, asker: RequestUser) => JsonObject) | undefined;
};

/** The user of a request, all roles and bindings, and the authenticator of tokens. */
export type RequestUser = {
  readonly user: User;
  readonly book: RoleBook;
  readonly identify: (token: string) => User | undefined;
};

export type Subresource =
  "status" | "binding" | "log" | "eviction" | "finalize" | "token" | "exec" | "attach" | "portforward";

type Given = Pick<Resource, "kind" | "plural"> & Partial<Resource>;

/** A resource of the core group with the defaults of most resources, but for the given parts. */
export function defineResource(given: Given): Resource {
  const namespaced = given.namespaced ?? true;
  const apiVersion = buildApiVersion({ group: "", version: "v1", ...given });
  return {
    group: "",
    version: "v1",
    singular: given.kind.toLowerCase(),
    shortNames: [],
    categories: [],
    subresources: [],
    schema: undefined,
    decode: (body, wrong, stored) => decodeObject({ apiVersion, kind: given.kind }, body, wrong, stored),
    checkName: () => undefined,
    columns: [NAME, AGE],
    defaults: (object) => object,
    validate: () => [],
    validateUpdate: (_before, after) => given.validate?.(after) ?? [],
    validateChange: () => [],
    carryOver: (_before, after) => after,
    allocate: (object) => object,
    keepAlways: () => undefined,
    whileDeleting: (object) => object,
    counted: false,
    unconditionalUpdate: true,
    createOnUpdate: false,
    deleteReturnsObject: false,
    gracePeriodSeconds: undefined,
    desiredOf: (object) => object["spec"],
    withoutStatus: (object) => object,
    validateStatus: () => [],
    holdDeletion: (object) => object,
    closed: undefined,
    patchesStrategically: true,
    answer: undefined,
    ...given,
    namespaced,
    fields: {
      "metadata.name": getName,
      ...(namespaced ? { "metadata.namespace": getNamespace } : {}),
      ...given.fields,
    },
  };
}

export function buildApiVersion({ group, version }: Pick<Resource, "group" | "version">): string {
  return group === "" ? version : `${group}/${version}`;
}

export function buildBucketName(resource: Resource): string {
  return `${resource.group}/${resource.plural}`;
}

/** `namespace/name`, or `/name` for objects without a namespace. Sorts as etcd sorts. */
export function buildKey(namespace: string, name: string): string {
  return `${namespace}/${name}`;
}
