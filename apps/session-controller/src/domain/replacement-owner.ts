import { PART_OWNER_CHARACTERS, PART_SEPARATOR } from "@muster/names";
import type { SessionRecord } from "./session.ts";

/** Owner kind of sessions in the ledger. */
export const SESSION_KIND = "session";

/** Owner kind of replacement machines in the ledger. It differs from the kind of sessions, so that replacements do not count towards `SESSION_EXECUTORS`. */
export const REPLACEMENT_KIND = "session-part";

const UID_KEPT = 8;

/** Builds the owner id of a component's replacement machine in the ledger. The id is unique for each session, whatever the names. */
export function buildReplacementId(
  session: Pick<SessionRecord, "name" | "uid" | "components">,
  component: string,
): string {
  const index = session.components.findIndex(({ name }) => name === component);
  return `${buildReplacementPrefix(session)}-${index}`;
}

/** Common prefix of all replacement owner ids of one session, up to the last hyphen. */
export function buildReplacementPrefix({ name, uid }: Pick<SessionRecord, "name" | "uid">): string {
  return `${name.slice(0, PART_OWNER_CHARACTERS)}${PART_SEPARATOR}${uid.replaceAll("-", "").slice(0, UID_KEPT)}`;
}

export function getReplacementPrefix(id: string): string {
  return id.slice(0, id.lastIndexOf("-"));
}

/** Returns the session's name, as far as the id contains it: a hint at the session that a grant concerns. */
export function getReplacementSession(id: string): string {
  return id.slice(0, id.lastIndexOf(PART_SEPARATOR));
}
