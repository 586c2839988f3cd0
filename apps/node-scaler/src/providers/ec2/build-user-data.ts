import { throwFault } from "@muster/faults";
import type { Boot } from "../provider.ts";

/** What a template may name. Each is put in where `${NAME}` stands. */
const NAMES = ["NODE_NAME", "POOL", "NODE_LABELS", "NODE_TAINTS", "BOOTSTRAP_TOKEN"] as const;

/** The largest that EC2 takes, before it is encoded. */
export const USER_DATA_MAX_BYTES = 16 * 1024;

/** What an instance runs when it boots. Throws invalid_request for a name that is not known, and for what is too large. `token`: made for this node, for joining the cluster; whoever reads the user data can use it until it expires. */
export function buildUserData(template: string, boot: Boot, token: string): string {
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
  if (Buffer.byteLength(text) > USER_DATA_MAX_BYTES) {
    throwFault({ code: "limit_exceeded", what: "bytes of user data", limit: USER_DATA_MAX_BYTES, retryAfterMs: 0 });
  }
  return text;
}
