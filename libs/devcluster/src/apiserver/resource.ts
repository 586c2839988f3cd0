import type { Schema } from "./definitions.ts";
import type { JsonObject } from "./json.ts";
import { nameOf, namespaceOf } from "./metadata.ts";
import type { Check } from "./names.ts";
import { decode, type Decoded } from "./schema.ts";
import type { SelectableFields } from "./selectors.ts";
import type { Problem } from "./status.ts";
import type { Column } from "./table.ts";

/** All that sets one resource apart from the others; the rest of the server is the same for each. */
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
  /** Its fields; undefined for a kind that is built in, whose schema is known by its name. */
  readonly schema: Schema | undefined;
  /** Takes from a body what the resource has; `wrong` refuses a value of the wrong type. */
  readonly decode: (body: JsonObject, wrong: (because: string) => never) => Decoded;
  readonly checkName: Check;
  readonly fields: SelectableFields;
  readonly columns: readonly Column[];
  /** Fills in what Kubernetes fills in when an object is created. */
  readonly defaults: (object: JsonObject) => JsonObject;
  /** What is wrong with an object beyond its metadata and the types of its fields. */
  readonly validate: (object: JsonObject) => readonly Problem[];
  /** What may not change. */
  readonly validateChange: (before: JsonObject, after: JsonObject) => readonly Problem[];
  /** What an update keeps of the state before, whatever it says. */
  readonly carryOver: (before: JsonObject, after: JsonObject) => JsonObject;
  /** Gives a new object what must differ from all others, such as an address. */
  readonly allocate: (object: JsonObject, others: () => readonly JsonObject[]) => JsonObject;
  /** Why an object may never be deleted; undefined when it may. */
  readonly keepAlways: (object: JsonObject) => string | undefined;
  /** How an object that is being deleted shows it beside its metadata. */
  readonly whileDeleting: (object: JsonObject) => JsonObject;
  /** `metadata.generation` counts changes of the spec. */
  readonly counted: boolean;
  /** An update without a resource version is taken. */
  readonly unconditionalUpdate: boolean;
  /** An update of an object that does not exist creates it. */
  readonly createOnUpdate: boolean;
  /** Answer of a deletion: the object that is gone, or a Status. */
  readonly deleteReturnsObject: boolean;
  /** Seconds that a deletion waits for somebody to stop what the object stands for; undefined: there is nothing to wait for. */
  readonly gracePeriodSeconds: ((object: JsonObject, wanted: number | undefined) => number) | undefined;
  /** What is answered at once to an object that is posted; such objects are kept nowhere, and nothing else can be done with them. */
  readonly answer: ((object: JsonObject) => JsonObject) | undefined;
  /** Where the objects are kept, if another resource keeps them in its own form. */
  readonly storedAs: StoredForm | undefined;
};

export type Subresource = "status" | "binding" | "log" | "eviction" | "finalize";

/** Two API groups may show one set of objects. */
export type StoredForm = {
  readonly bucket: string;
  readonly toStored: (object: JsonObject) => JsonObject;
  readonly fromStored: (object: JsonObject) => JsonObject;
};

type Given = Pick<Resource, "kind" | "plural" | "columns"> & Partial<Resource>;

/** A resource of the core group with nothing special about it, but for what is given. */
export function defineResource(given: Given): Resource {
  const namespaced = given.namespaced ?? true;
  const apiVersion = apiVersionOf({ group: "", version: "v1", ...given });
  return {
    group: "",
    version: "v1",
    singular: given.kind.toLowerCase(),
    shortNames: [],
    categories: [],
    subresources: [],
    schema: undefined,
    decode: (body, wrong) => decode({ apiVersion, kind: given.kind }, body, wrong),
    checkName: () => undefined,
    defaults: (object) => object,
    validate: () => [],
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
    answer: undefined,
    storedAs: undefined,
    ...given,
    namespaced,
    fields: {
      "metadata.name": nameOf,
      ...(namespaced ? { "metadata.namespace": namespaceOf } : {}),
      ...given.fields,
    },
  };
}

export function apiVersionOf({ group, version }: Pick<Resource, "group" | "version">): string {
  return group === "" ? version : `${group}/${version}`;
}

export function bucketOf(resource: Resource): string {
  return resource.storedAs?.bucket ?? `${resource.group}/${resource.plural}`;
}

/** `namespace/name`, or `/name` for what has no namespace. Sorts as etcd sorts. */
export function keyOf(namespace: string, name: string): string {
  return `${namespace}/${name}`;
}

/** As clients of this resource see a stored object. */
export function shown(resource: Resource, stored: JsonObject): JsonObject {
  return resource.storedAs === undefined ? stored : resource.storedAs.fromStored(stored);
}
