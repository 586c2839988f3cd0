import { BATCH_KINDS, checkDnsSubdomain } from "@muster/names";
import { findNearestName } from "@muster/documents";

/** The kinds of work that can own machines. */
const OWNER_KINDS = ["session", "job", ...BATCH_KINDS, "replica-set", "lease"] as const;

/** Reads the owner of machines or of a waiting request as users type it: `KIND/NAME`; `NAME` alone is a session. Nouns of known work are kinds too. */
export function readOwner(
  text: string,
  nouns: readonly string[] = [],
): { readonly kind: string; readonly id: string } | { readonly trouble: string } {
  const slash = text.indexOf("/");
  const word = slash < 0 ? "session" : text.slice(0, slash);
  const id = text.slice(slash + 1);
  const known = [...new Set([...OWNER_KINDS, ...nouns])];
  const kind = known.find((each) => each === word);
  if (kind === undefined) {
    const near = findNearestName(word, known);
    const meant = near === undefined ? `known are ${known.join(", ")}` : `did you mean "${near}/${id}"?`;
    return { trouble: `"${word}" is no kind of owner; ${meant}` };
  }
  if (id === "") return { trouble: `the name is missing after "${word}/"` };
  const wrong = checkDnsSubdomain("name", id);
  return wrong?.code === "invalid_request" ? { trouble: `the name ${wrong.reason}` } : { kind, id };
}
