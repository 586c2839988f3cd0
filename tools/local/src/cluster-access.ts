import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { makeKubeCalls, loadKube, type KubeCalls, type KubeObject } from "@muster/kube";
import { SERVICES, type ServiceName } from "@muster/repo/services";
import { applyAll, readManifests } from "./manifests.ts";

export type AccessOptions = {
  readonly services?: readonly ServiceName[];
  /** Files of deploy/kubernetes that grant more rights. */
  readonly more?: readonly string[];
  /** Requested lifetime of the tokens; the cluster may shorten it. Default: one hour. */
  readonly seconds?: number;
};

export type Access = {
  /** The kubeconfig of each service; undefined where the service needs no rights in Kubernetes. */
  readonly files: ReadonlyMap<ServiceName, string | undefined>;
  /** When the first token expires. */
  readonly untilMs: number;
};

/**
 * Applies the ServiceAccount and the roles of each service from deploy/kubernetes, and writes `<service>.kubeconfig` with its token into the directory. Such a
 * file has the rights of that service only. The given kubeconfig must be allowed to grant them; the written files hold none of its credentials.
 */
export async function grantAccess(kubeconfig: string, directory: string, options: AccessOptions = {}): Promise<Access> {
  const { services = SERVICES, more = [], seconds = 3600 } = options;
  const admin = loadKube(kubeconfig);
  await using calls = makeKubeCalls(admin);
  await mkdir(directory, { recursive: true, mode: 0o700 });
  for (const file of ["namespace.yaml", ...more])
    await applyAll(calls, await readManifests(`deploy/kubernetes/${file}`));
  const cluster = await readCluster(admin);
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
    const { token, expirationTimestamp } = await requestToken(calls, account, seconds);
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
    // JSON is valid YAML.
    await writeFile(file, JSON.stringify(content), { mode: 0o600 });
    files.set(service, file);
  }
  return { files, untilMs };
}

/** The address and the authority of the cluster, with the certificate inline, so that the file works in any place. */
async function readCluster(admin: ReturnType<typeof loadKube>): Promise<object> {
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

async function requestToken(
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
  if (status === undefined) throw new Error(`the API server returned no token for ${metadata?.name ?? ""}`);
  return status;
}
