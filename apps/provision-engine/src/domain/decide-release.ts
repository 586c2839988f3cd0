import type { Surroundings } from "./surroundings.ts";

/** Whether what a lease has may be taken down. */
export type Release =
  | { readonly release: "yes"; readonly because: string }
  /** `lease`: one of those that it waits for. */
  | { readonly release: "later"; readonly lease: string; readonly because: string };

/** So many of those that live in a lease are named. */
export const NAMED_MOST = 5;

/** A network stays while leases live in it, a volume while it may be mounted. */
export function decideRelease({ users }: Pick<Surroundings, "users">): Release {
  const [first] = users.some;
  if (first === undefined) return { release: "yes", because: "nothing lives in it" };
  const named = users.some.slice(0, NAMED_MOST);
  const more = users.count > named.length ? ` and ${users.count - named.length} more` : "";
  return { release: "later", lease: first, because: `it is in use by ${named.join(", ")}${more}` };
}
