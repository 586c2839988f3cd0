import { nearestName } from "./nearest-name.ts";

/** What can own machines. */
export const OWNER_KINDS = ["session", "job", "replica-set", "lease"] as const;
export type OwnerKind = (typeof OWNER_KINDS)[number];

/** Who holds machines or waits for them, as it is typed: `KIND/NAME`; `NAME` alone is a session. */
export function readOwner(
  text: string,
): { readonly kind: OwnerKind; readonly id: string } | { readonly trouble: string } {
  const slash = text.indexOf("/");
  const word = slash < 0 ? "session" : text.slice(0, slash);
  const id = text.slice(slash + 1);
  const kind = OWNER_KINDS.find((known) => known === word);
  if (kind === undefined) {
    const near = nearestName(word, OWNER_KINDS);
    const meant = near === undefined ? `known are ${OWNER_KINDS.join(", ")}` : `did you mean "${near}/${id}"?`;
    return { trouble: `"${word}" is no kind of owner; ${meant}` };
  }
  return id === "" ? { trouble: `the name is missing after "${word}/"` } : { kind, id };
}
