import { hostname, userInfo } from "node:os";

/** Returns the user who runs the command, for audits. */
export function buildCallerName(): string {
  try {
    return `${userInfo().username}@${hostname()}`;
  } catch {
    // The user id in a container often has no name.
    return `user ${process.getuid?.() ?? ""}@${hostname()}`;
  }
}
