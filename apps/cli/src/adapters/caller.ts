import { hostname, userInfo } from "node:os";

/** Returns the user who runs the command, for audits. */
export function buildCallerName(): string {
  try {
    return `${userInfo().username}@${hostname()}`;
  } catch {
    // Containers often run with a user id that has no name.
    return `user ${process.getuid?.() ?? ""}@${hostname()}`;
  }
}
