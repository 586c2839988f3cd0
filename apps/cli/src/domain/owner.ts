import { BATCH_KINDS, checkDnsSubdomain } from "@muster/names";
import { findNearestName } from "@muster/documents";

/** The kinds of work that can own machines. */
const OWNER_KINDS = ["session", "job", ...BATCH_KINDS, "replica-set", "lease"] as const;

/** `namespace`: the id is the name of work of Kubernetes in it. */
export type ReadOwner = { readonly kind: string; readonly id: string; readonly namespace?: string };

/**
 * Reads the owner of machines or of a waiting request as users type it: `KIND/NAME`, and for work of Kubernetes also `KIND/NAMESPACE/NAME`; `NAME` alone is a
 * session. Nouns of known work are kinds too.
 */
export function readOwner(text: string, nouns: readonly string[] = []): ReadOwner | { readonly trouble: string } {
  const slash = text.indexOf("/");
  const word = slash < 0 ? "session" : text.slice(0, slash);
  const rest = text.slice(slash + 1);
  const [namespace, ...names] = BATCH_KINDS.some((each) => each === word) && rest.includes("/") ? rest.split("/") : [];
  const id = namespace === undefined ? rest : names.join("/");
  const known = [...new Set([...OWNER_KINDS, ...nouns])];
  const kind = known.find((each) => each === word);
  if (kind === undefined) {
    const near = findNearestName(word, known);
    const meant = near === undefined ? `known are ${known.join(", ")}` : `did you mean "${near}/${rest}"?`;
    return { trouble: `"${word}" is no kind of owner; ${meant}` };
  }
  if (id === "") return { trouble: `the name is missing after "${text.slice(0, text.length - id.length)}"` };
  const wrong =
    checkDnsSubdomain("name", id) ?? (namespace === undefined ? undefined : checkDnsSubdomain("namespace", namespace));
  if (wrong?.code === "invalid_request") return { trouble: `the ${wrong.field} ${wrong.reason}` };
  return { kind, id, ...(namespace !== undefined && { namespace }) };
}
