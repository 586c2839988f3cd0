import type { Surroundings } from "./surroundings.ts";

/** Whether the resources of a lease may be removed. */
export type Release =
  | { readonly kind: "yes"; readonly because: string }
  /** `lease` is one of its users. */
  | { readonly kind: "later"; readonly lease: string; readonly because: string };

/** Maximum number of users of a lease that a text names. */
export const MAX_NAMED_USERS = 5;

/** A network stays while leases use it, a volume while it may be mounted. */
export function decideRelease({ users }: Pick<Surroundings, "users">): Release {
  const [first] = users.some;
  if (first === undefined) return { kind: "yes", because: "nothing uses it" };
  const named = users.some.slice(0, MAX_NAMED_USERS);
  const more = users.count > named.length ? ` and ${users.count - named.length} more` : "";
  return { kind: "later", lease: first, because: `it is in use by ${named.join(", ")}${more}` };
}
