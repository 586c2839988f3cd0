import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { kubeCalls, loadKube, type KubeCalls, type KubeObject } from "@muster/kube";
import { SERVICES, type ServiceName } from "@muster/repo/services";
import { applyAll, readManifests } from "./manifests.ts";

export type AccessOptions = {
  readonly services?: readonly ServiceName[];
  /** Files of deploy/kubernetes with further rights. */
  readonly more?: readonly string[];
  /** How long the tokens are good, where the cluster allows as much. Default an hour. */
  readonly seconds?: number;
};

export type Access = {
  /** The kubeconfig of each service; undefined: it has no rights in Kubernetes, and needs none. */
  readonly files: ReadonlyMap<ServiceName, string | undefined>;
  /** When the first of the tokens ends. */
  readonly untilMs: number;
};

/**
 * Gives each service the ServiceAccount and the roles of deploy/kubernetes, and writes into the directory a kubeconfig with its token, `<service>.kubeconfig`: whoever uses that may
 * do what the service may do there, and nothing else. Needs a kubeconfig that may give such rights; nothing of its credentials is in what is written.
 */
export async function grantAccess(kubeconfig: string, directory: string, options: AccessOptions = {}): Promise<Access> {
  const { services = SERVICES, more = [], seconds = 3600 } = options;
  const admin = loadKube(kubeconfig);
  await using calls = kubeCalls(admin);
  await mkdir(directory, { recursive: true, mode: 0o700 });
  for (const file of ["namespace.yaml", ...more])
    await applyAll(calls, await readManifests(`deploy/kubernetes/${file}`));
  const cluster = await clusterOf(admin);
  const files = new Map<ServiceName, string | undefined>();
  let untilMs = Infinity;
  for (const service of services) {
    const objects = await readManifests(`deploy/kubernetes/${service}.yaml`);
    await applyAll(calls, objects);
    const account = objects.find(({ kind }) => kind === "ServiceAccount");
    if (account === undefined || !objects.some(({ kind = "" }) => kind.endsWith("Role"))) {
      files.set(service, undefined);
      continue;
    }
    const { token, expirationTimestamp } = await tokenOf(calls, account, seconds);
    untilMs = Math.min(untilMs, Date.parse(expirationTimestamp));
    const file = join(directory, `${service}.kubeconfig`);
    const content = {
      apiVersion: "v1",
      kind: "Config",
      clusters: [{ name: "cluster", cluster }],
      users: [{ name: service, user: { token } }],
      contexts: [{ name: service, context: { cluster: "cluster", user: service } }],
      "current-context": service,
    };
    // JSON is YAML, too.
    await writeFile(file, JSON.stringify(content), { mode: 0o600 });
    files.set(service, file);
  }
  return { files, untilMs };
}

/** Where the cluster is, and whom to trust there, wherever the file is used. */
async function clusterOf(admin: ReturnType<typeof loadKube>): Promise<object> {
  const cluster = admin.getCurrentCluster();
  const ca = cluster?.caData ?? (cluster?.caFile === undefined ? undefined : await readFile(cluster.caFile, "base64"));
  return {
    server: cluster?.server,
    ...(ca !== undefined && { "certificate-authority-data": ca }),
    ...(cluster?.skipTLSVerify === true && { "insecure-skip-tls-verify": true }),
    ...(cluster?.tlsServerName !== undefined && { "tls-server-name": cluster.tlsServerName }),
  };
}

type TokenRequest = KubeObject & {
  readonly spec: { readonly expirationSeconds: number };
  readonly status?: { readonly token: string; readonly expirationTimestamp: string };
};

async function tokenOf(
  calls: KubeCalls,
  { metadata }: KubeObject,
  expirationSeconds: number,
): Promise<NonNullable<TokenRequest["status"]>> {
  const accounts = { apiVersion: "v1", plural: "serviceaccounts", namespace: metadata?.namespace ?? "" };
  const request: TokenRequest = {
    apiVersion: "authentication.k8s.io/v1",
    kind: "TokenRequest",
    metadata: { name: metadata?.name ?? "" },
    spec: { expirationSeconds },
  };
  const { status } = await calls.create(accounts, request, { subresource: "token" });
  if (status === undefined) throw new Error(`the API server made no token for ${metadata?.name ?? ""}`);
  return status;
}
