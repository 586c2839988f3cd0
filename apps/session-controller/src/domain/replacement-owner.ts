import { PART_OWNER_CHARACTERS, PART_SEPARATOR } from "@muster/names";
import type { SessionRecord } from "./session.ts";

/** Owner kind of sessions in the ledger. */
export const SESSION_KIND = "session";

/**
 * Owner kind, in the ledger, of machines that components have in place of lost ones. Of another kind than sessions, so that they take no place of
 * `SESSION_EXECUTORS`.
 */
export const REPLACEMENT_KIND = "session-part";

const UID_KEPT = 8;

/** Owner id, in the ledger, of the replacement machine of a component. No two sessions share one, whatever their names. */
export function replacementId(session: Pick<SessionRecord, "name" | "uid" | "components">, component: string): string {
  const index = session.components.findIndex(({ name }) => name === component);
  return `${replacementPrefix(session)}-${index}`;
}

/** Common prefix of all replacement owner ids of one session, up to the last hyphen. */
export function replacementPrefix({ name, uid }: Pick<SessionRecord, "name" | "uid">): string {
  return `${name.slice(0, PART_OWNER_CHARACTERS)}${PART_SEPARATOR}${uid.replaceAll("-", "").slice(0, UID_KEPT)}`;
}

export function prefixOfReplacement(id: string): string {
  return id.slice(0, id.lastIndexOf("-"));
}

/** The session's name, as far as the id has it: a hint for which session a grant is. */
export function sessionOfReplacement(id: string): string {
  return id.slice(0, id.lastIndexOf(PART_SEPARATOR));
}
