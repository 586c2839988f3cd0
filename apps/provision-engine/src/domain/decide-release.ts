import type { Surroundings } from "./surroundings.ts";

/** Whether what a lease has may be taken down. */
export type Release =
  | { readonly kind: "yes"; readonly because: string }
  /** `lease`: one of those that it waits for. */
  | { readonly kind: "later"; readonly lease: string; readonly because: string };

/** So many of those that live in a lease are named. */
export const MAX_NAMED_USERS = 5;

/** A network stays while leases live in it, a volume while it may be mounted. */
export function decideRelease({ users }: Pick<Surroundings, "users">): Release {
  const [first] = users.some;
  if (first === undefined) return { kind: "yes", because: "nothing lives in it" };
  const named = users.some.slice(0, MAX_NAMED_USERS);
  const more = users.count > named.length ? ` and ${users.count - named.length} more` : "";
  return { kind: "later", lease: first, because: `it is in use by ${named.join(", ")}${more}` };
}
