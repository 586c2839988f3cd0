import { hostname, userInfo } from "node:os";

/** The user who runs the command, for audits. */
export function caller(): string {
  try {
    return `${userInfo().username}@${hostname()}`;
  } catch {
    // A user without a name, as in many containers.
    return `user ${process.getuid?.() ?? ""}@${hostname()}`;
  }
}
