import { createHash } from "node:crypto";
import { buildLabelPart } from "./label-part.ts";
import type { Owner } from "./owners.ts";

/** Kind of the owners of machines for sessions. */
export const SESSION = "session";

/** Maximum length of a DNS label. A session name that is an owner id is shorter, because the names of the session's pods are longer than its name. */
const ELSEWHERE_CHARACTERS = 63;
const MAX_NAMESPACE_PART = 11;
const MAX_NAME_PART = 12;
const NAMESPACE_HASH_CHARACTERS = 16;

/**
 * The owner id of a session in another namespace than MUSTER_NAMESPACE, where the name alone is the id. A DNS label of a length that no name of a session has.
 * Its first `PART_OWNER_CHARACTERS` contain 88 bits of a hash of namespace and name. It ends with 64 bits of a hash of the namespace, so that a pod proves
 * that it may belong to the session.
 */
export function buildSessionElsewhereId({
  namespace,
  name,
}: {
  readonly namespace: string;
  readonly name: string;
}): string {
  const text = `${buildLabelPart(namespace, MAX_NAMESPACE_PART)}-${buildLabelPart(name, MAX_NAME_PART)}-`;
  const end = hashNamespace(namespace);
  return `${text}${hash(`${namespace}/${name}`).slice(0, ELSEWHERE_CHARACTERS - text.length - end.length)}${end}`;
}

/** Whether the owner is a session in another namespace than MUSTER_NAMESPACE. */
export function isSessionElsewhere({ kind, id }: Owner): boolean {
  return kind === SESSION && id.length === ELSEWHERE_CHARACTERS;
}

/** Whether the owner is a session in this namespace, which is not MUSTER_NAMESPACE. */
export function isSessionIn(owner: Owner, namespace: string): boolean {
  return isSessionElsewhere(owner) && owner.id.endsWith(hashNamespace(namespace));
}

/**
 * Whether pods of the owner may be in this namespace. The owner id of a session in another namespace than `own` (MUSTER_NAMESPACE) contains that namespace, so
 * only pods of that namespace can have it.
 */
export function isNamespaceOfOwner(owner: Owner, namespace: string, own: string): boolean {
  return isSessionElsewhere(owner) ? isSessionIn(owner, namespace) : namespace === own;
}

function hashNamespace(namespace: string): string {
  return hash(namespace).slice(0, NAMESPACE_HASH_CHARACTERS);
}

/**
 * Hashes cryptographically. With a weak hash, users could choose a namespace whose hash equals that of another, and pass their pods off as pods of its
 * sessions.
 */
function hash(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
