import type { JsonObject } from "../json.ts";

/** The sender of a request. */
export type User = {
  readonly name: string;
  readonly uid: string | undefined;
  readonly groups: readonly string[];
  readonly extra: Readonly<Record<string, readonly string[]>>;
};

const MASTERS = "system:masters";

/** The user of the server's own token. */
export const ADMIN: User = { name: "admin", uid: undefined, groups: [MASTERS, "system:authenticated"], extra: {} };

/** Returns whether the user may do everything. */
export function hasAllRights({ groups }: User): boolean {
  return groups.includes(MASTERS);
}

export function describeUser({ name, uid, groups, extra }: User): JsonObject {
  const isPlain = Object.keys(extra).length === 0;
  return { username: name, ...(uid === undefined ? {} : { uid }), groups, ...(isPlain ? {} : { extra }) };
}
