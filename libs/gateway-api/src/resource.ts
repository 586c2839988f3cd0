import type { ServiceDescriptor } from "@muster/proto";

/** The scope in which the rights on a resource are checked. */
type Scope =
  /** The path names the namespace. */
  | "path"
  /** The namespace of the installation. */
  | "installation"
  | "cluster";

/** One row of the table of resources, from which paths, rights, requests and documents are derived. */
export type Resource<Service extends ServiceDescriptor = ServiceDescriptor> = {
  /** `/v1/<path>`. */
  readonly path: string;
  /** The plural in RBAC rules, in the group muster.dev. */
  readonly plural: string;
  /** True if its names are not those of `plural`: a request then needs the right on all of them. */
  readonly takesRightOnAll?: true;
  readonly noun: string;
  readonly scope: Scope;
  /** Fields of the requests that name one: the last parts of the path. */
  readonly name: readonly string[];
  /** The request field that contains the name fields. Absent: the request itself contains them. */
  readonly nameIn?: string;
  readonly service: Service;
  /** `key`: the fields that identify an item in a watch. Empty: the list is a history, which no watch follows. */
  readonly list?: { readonly call: MethodOf<Service>; readonly items: string; readonly key: readonly FieldPath[] };
  /** `at`: the list is searched for the item with the name in this field. Absent: items are only listed. */
  readonly get?: Read<Service> | { readonly at: FieldPath };
  /** Reads below the name of one item: `explain`, `events`. `next` answers once the item differs from a revision; `log` is one piece of a log. */
  readonly reads?: Readonly<Record<string, Read<Service>>>;
  /** Reads the log of one component, from an offset. */
  readonly logs?: { readonly call: MethodOf<Service> };
  readonly changes?: readonly Change<Service>[];
};

/** A field, and fields in it: `["queue", "name"]`. */
export type FieldPath = readonly string[];

/** The rows of the table without the types of their services. */
export type AnyResource = Resource;

type MethodOf<Service extends ServiceDescriptor> = keyof Service["methods"] & string;

export type Read<Service extends ServiceDescriptor = ServiceDescriptor> = {
  readonly call: MethodOf<Service>;
  /** The field of the reply that is the answer. Absent: the reply. */
  readonly item?: string;
  /** Fields of the item that are shown; default: all. */
  readonly fields?: readonly string[];
  /** Subresource whose `get` right is required: `log` of `sessions/log`. */
  readonly subresource?: string;
  /** Parameters that the query must have. */
  readonly requires?: readonly string[];
};

/** A request with an effect, or, as a plan, the check of one. */
export type Change<Service extends ServiceDescriptor = ServiceDescriptor> = {
  readonly call: MethodOf<Service>;
  readonly http: "POST" | "PUT" | "DELETE";
  /** The target of the route: the resource as a whole, one item by its name, or `/v1/plan/<path>`. */
  readonly of: "all" | "one" | "plan";
  /** Last part of the path: `cancel`. */
  readonly action?: string;
  readonly verb: "create" | "update" | "delete";
  /** A further right: its service changes existing objects, and creates missing ones. */
  readonly alsoVerb?: "create" | "update";
  /** Rights on other resources that its service changes with it. */
  readonly further?: readonly AdditionalRight[];
  /** The field that takes the body, as JSON text. Absent: the body has the fields of the request. */
  readonly bodyIn?: string;
  /** Fields that are set here, and no client may set. */
  readonly sets?: Readonly<Record<string, unknown>>;
};

/** A further right that a change requires, depending on its body. */
export type AdditionalRight = {
  readonly verb: Change["verb"];
  /** The plural in RBAC rules, with the scope of the row. */
  readonly resource: string;
  /** The field of the body that names the object. Absent: all objects. */
  readonly name?: string;
  /** Applies only if one of these fields is set. */
  readonly with?: readonly string[];
  /** Does not apply if this field is true. */
  readonly unless?: string;
};

/** A row with the methods of its service checked. */
export function defineResource<Service extends ServiceDescriptor>(row: Resource<Service>): AnyResource {
  // The names of methods are strings to everything that reads the table.
  return row as unknown as AnyResource;
}
