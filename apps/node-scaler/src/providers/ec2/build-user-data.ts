import { throwFault } from "@muster/faults";
import type { BootRequest } from "../provider.ts";

/** The variables of a template. Each replaces `${NAME}`. */
const NAMES = ["NODE_NAME", "POOL", "NODE_LABELS", "NODE_TAINTS", "BOOTSTRAP_TOKEN"] as const;

/** The maximum that EC2 accepts, before encoding. */
export const MAX_USER_DATA_BYTES = 16 * 1024;

/**
 * Builds the user data of an instance. Throws invalid_request for an unknown placeholder and for text that is too large. Any reader can use `token`, which is
 * made for this node, until it expires.
 */
export function buildUserData(template: string, boot: BootRequest, token: string): string {
  const values: Readonly<Record<(typeof NAMES)[number], string>> = {
    NODE_NAME: boot.nodeName,
    POOL: boot.pool,
    NODE_LABELS: Object.entries(boot.labels)
      .map(([key, value]) => `${key}=${value}`)
      .toSorted()
      .join(","),
    NODE_TAINTS: boot.taints.map(({ key, effect }) => `${key}:${effect}`).join(","),
    BOOTSTRAP_TOKEN: token,
  };
  const text = template.replaceAll(/\$\{MUSTER_([A-Z_]+)\}/g, (_, name: string) => {
    const known = NAMES.find((one) => one === name);
    if (known === undefined) {
      return throwFault({
        code: "invalid_request",
        field: "userData",
        reason: `names \${MUSTER_${name}}; there are ${NAMES.map((one) => `\${MUSTER_${one}}`).join(", ")}`,
      });
    }
    return values[known];
  });
  if (Buffer.byteLength(text) > MAX_USER_DATA_BYTES) {
    throwFault({ code: "limit_exceeded", what: "bytes of user data", limit: MAX_USER_DATA_BYTES, retryAfterMs: 0 });
  }
  return text;
}
