import { readFile } from "node:fs/promises";
import type { KubeConfig } from "@kubernetes/client-node";
import { throwFault } from "@muster/faults";
import type { KubeCalls, KubeObject } from "@muster/kube";
import type { Place } from "../domain/build-volume.ts";
import { faulted } from "./lease-objects.ts";

/** What somebody outside needs to come in as an account. */
export type ClusterAccess = {
  readonly url: string;
  /** PEM. */
  readonly ca: string | undefined;
  /** A secret: it belongs to the user, and into no log. */
  readonly token: string;
  /** As the server says, which may give less time than was asked for. */
  readonly expiresAt: string;
};

export type AccessOf = (account: Place, seconds: number, signal: AbortSignal) => Promise<ClusterAccess>;

type TokenRequest = KubeObject & {
  readonly spec: { readonly expirationSeconds: number };
  readonly status?: { readonly token?: string; readonly expirationTimestamp?: string };
};

/** Asks for tokens of accounts. `url`: where users reach the server, if not where the engine does. Rejects as LeaseObjects do. */
export function clusterAccess(config: KubeConfig, calls: KubeCalls, url: string | undefined): AccessOf {
  const cluster = config.getCurrentCluster();
  return async ({ name, namespace }, expirationSeconds, signal) => {
    const request: TokenRequest = {
      apiVersion: "authentication.k8s.io/v1",
      kind: "TokenRequest",
      metadata: { name },
      spec: { expirationSeconds },
    };
    const accounts = { apiVersion: "v1", plural: "serviceaccounts", namespace };
    const { status } = await faulted(calls.create(accounts, request, { subresource: "token", signal }));
    const { token, expirationTimestamp } = status ?? {};
    if (token === undefined || expirationTimestamp === undefined)
      return throwFault({ code: "unavailable", dependency: "tokens of kubernetes", retryAfterMs: 0 });
    return {
      url: url ?? cluster?.server ?? "",
      ca: await authorityOf(cluster),
      token,
      expiresAt: expirationTimestamp,
    };
  };
}

async function authorityOf(cluster: ReturnType<KubeConfig["getCurrentCluster"]>): Promise<string | undefined> {
  if (cluster?.caData !== undefined) return Buffer.from(cluster.caData, "base64").toString();
  return cluster?.caFile === undefined ? undefined : readFile(cluster.caFile, "utf8");
}
