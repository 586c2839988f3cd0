import { hostname, userInfo } from "node:os";

/** Who runs the command, as far as it can tell: for whoever reads later what was done. */
export function caller(): string {
  try {
    return `${userInfo().username}@${hostname()}`;
  } catch {
    // A user without a name, as in many containers.
    return `user ${process.getuid?.() ?? ""}@${hostname()}`;
  }
}
