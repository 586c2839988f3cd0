import { randomInt } from "node:crypto";
import type { KubeCalls } from "@muster/kube";

const SECRETS = { apiVersion: "v1", plural: "secrets", namespace: "kube-system" };
const ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789";
const ID_LENGTH = 6;
const SECRET_LENGTH = 16;

/**
 * Creates a Kubernetes bootstrap token for one node: a kubelet uses it to request its own certificate, and the key never leaves the machine. The token expires
 * after `validMs`, and the cluster removes it. Rejects as `calls` does; a retry leaves an unused token that expires.
 */
export async function mintBootstrapToken(
  calls: KubeCalls,
  { nodeName, nowMs, validMs }: { readonly nodeName: string; readonly nowMs: number; readonly validMs: number },
  signal: AbortSignal,
): Promise<string> {
  const [id, secret] = [randomText(ID_LENGTH), randomText(SECRET_LENGTH)];
  const data = {
    "token-id": id,
    "token-secret": secret,
    expiration: new Date(nowMs + validMs).toISOString(),
    "usage-bootstrap-authentication": "true",
    "auth-extra-groups": "system:bootstrappers:muster",
    description: `for node ${nodeName}`,
  };
  await calls.create(
    SECRETS,
    {
      apiVersion: "v1",
      kind: "Secret",
      metadata: { name: `bootstrap-token-${id}`, namespace: SECRETS.namespace },
      type: "bootstrap.kubernetes.io/token",
      data: Object.fromEntries(
        Object.entries(data).map(([key, value]) => [key, Buffer.from(value).toString("base64")]),
      ),
    },
    { signal },
  );
  return `${id}.${secret}`;
}

function randomText(length: number): string {
  return Array.from({ length }, () => ALPHABET[randomInt(ALPHABET.length)]).join("");
}
