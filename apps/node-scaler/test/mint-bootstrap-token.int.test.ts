import { makeKubeCalls, type KubeObject, loadKube } from "@muster/kube";
import { startKubeApiServer, findKubeAssets } from "@muster/testkit";
import { describe, expect, it } from "vitest";
import { mintBootstrapToken } from "../src/adapters/mint-bootstrap-token.ts";

type Secret = KubeObject & { readonly type?: string; readonly data?: Readonly<Record<string, string>> };

const assets = findKubeAssets();
const title = assets.found ? "a real kube-apiserver" : `a real kube-apiserver (skipped: ${assets.reason})`;

describe.skipIf(!assets.found)(title, () => {
  it("keeps the bootstrap token of each node for the maximum time of its boot", async () => {
    await using server = await startKubeApiServer();
    await using calls = makeKubeCalls(loadKube(server.kubeconfig));
    const order = { nodeName: "elastic-1", nowMs: Date.parse("2026-01-01T00:00:00Z"), validMs: 300_000 };
    const { signal } = new AbortController();
    const tokens = [await mintBootstrapToken(calls, order, signal), await mintBootstrapToken(calls, order, signal)];
    expect(new Set(tokens).size).toBe(2);
    for (const token of tokens) {
      expect(token).toMatch(/^[a-z0-9]{6}\.[a-z0-9]{16}$/);
      const [id = "", secret = ""] = token.split(".");
      const place = { apiVersion: "v1", plural: "secrets", namespace: "kube-system" };
      const kept = await calls.get<Secret>(place, `bootstrap-token-${id}`);
      const data = Object.entries(kept.data ?? {}).map(([key, value]) => [
        key,
        Buffer.from(value, "base64").toString(),
      ]);
      expect(kept.type).toBe("bootstrap.kubernetes.io/token");
      expect(Object.fromEntries(data)).toEqual({
        "token-id": id,
        "token-secret": secret,
        expiration: "2026-01-01T00:05:00.000Z",
        "usage-bootstrap-authentication": "true",
        "auth-extra-groups": "system:bootstrappers:muster",
        description: "for node elastic-1",
      });
    }
  });
});
