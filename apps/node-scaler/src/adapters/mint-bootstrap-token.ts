import { randomInt } from "node:crypto";
import type { KubeCalls } from "@muster/kube";

const SECRETS = { apiVersion: "v1", plural: "secrets", namespace: "kube-system" };
const ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789";
const ID_LENGTH = 6;
const SECRET_LENGTH = 16;

/**
 * Makes a bootstrap token of Kubernetes' own kind for one node: with it a kubelet asks for a certificate of its own, whose key never leaves the machine. It is good until
 * `validMs` from now, when the cluster removes it by itself. Rejects as `calls` does; an attempt that is made again leaves a token that nobody knows, and that ends in time.
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
