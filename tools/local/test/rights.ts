import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { kubeCalls, loadKube, type KubeObject } from "@muster/kube";
import { SERVICES, type ServiceName } from "@muster/repo/services";
import { applyAll, readManifests } from "./manifests.ts";

const RIGHTS = new Set(["ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"]);

/**
 * Gives each service the ServiceAccount and the roles of deploy/kubernetes, and writes a kubeconfig with its token: whoever uses that may do what the service may do there,
 * and nothing else. Whoever has no role there gets none. `more`: files of deploy/kubernetes with further rights.
 */
export async function grantRights(
  kubeconfig: string,
  directory: string,
  more: readonly string[] = [],
): Promise<ReadonlyMap<ServiceName, string | undefined>> {
  const admin = loadKube(kubeconfig);
  await using calls = kubeCalls(admin);
  await applyAll(calls, await readManifests("deploy/kubernetes/namespace.yaml"));
  for (const file of more) await applyAll(calls, await readManifests(`deploy/kubernetes/${file}`));
  const cluster = admin.getCurrentCluster();
  const files = new Map<ServiceName, string | undefined>();
  for (const service of SERVICES) {
    const manifests = await readManifests(`deploy/kubernetes/${service}.yaml`);
    const rights = manifests.filter(({ kind = "" }) => RIGHTS.has(kind));
    await applyAll(calls, rights);
    const account = rights.find(({ kind }) => kind === "ServiceAccount")?.metadata;
    const roles = rights.filter(({ kind = "" }) => kind.endsWith("Role"));
    if (roles.length === 0) {
      files.set(service, undefined);
      continue;
    }
    const accounts = { apiVersion: "v1", plural: "serviceaccounts", namespace: account?.namespace ?? "" };
    const request: TokenRequest = {
      apiVersion: "authentication.k8s.io/v1",
      kind: "TokenRequest",
      metadata: { name: account?.name ?? "" },
      spec: { expirationSeconds: 3600 },
    };
    const { status } = await calls.create(accounts, request, { subresource: "token" });
    const content = {
      apiVersion: "v1",
      kind: "Config",
      clusters: [
        {
          name: "cluster",
          cluster: {
            server: cluster?.server,
            ...(cluster?.caData !== undefined && { "certificate-authority-data": cluster.caData }),
            ...(cluster?.caFile !== undefined && { "certificate-authority": cluster.caFile }),
          },
        },
      ],
      users: [{ name: service, user: { token: status?.token } }],
      contexts: [{ name: service, context: { cluster: "cluster", user: service } }],
      "current-context": service,
    };
    const file = join(directory, `${service}.kubeconfig`);
    // JSON is YAML, too.
    await writeFile(file, JSON.stringify(content), { mode: 0o600 });
    files.set(service, file);
  }
  return files;
}

type TokenRequest = KubeObject & {
  readonly spec: { readonly expirationSeconds: number };
  readonly status?: { readonly token: string };
};
