import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { loadKube, type KubeCalls, type KubeObject } from "@muster/kube";
import { parseAllDocuments } from "yaml";

const MANIFESTS = new URL("../../../deploy/kubernetes/", import.meta.url);
const RIGHTS = new Set([
  "ServiceAccount",
  "Role",
  "RoleBinding",
  "ClusterRole",
  "ClusterRoleBinding",
  "ValidatingAdmissionPolicy",
  "ValidatingAdmissionPolicyBinding",
]);

type TokenRequest = KubeObject & {
  readonly spec: { readonly expirationSeconds: number };
  readonly status?: { readonly token: string };
};

/** Grants an engine exactly the rights of deploy/kubernetes, and writes its kubeconfig. */
export async function limitToRights(kubeconfig: string, calls: KubeCalls, directory: string): Promise<string> {
  const files = ["namespace.yaml", "provision-engine.yaml"];
  const texts = await Promise.all(files.map((file) => readFile(new URL(file, MANIFESTS), "utf8")));
  const manifests = texts
    .flatMap((text) => parseAllDocuments(text))
    .map((document) => document.toJS() as KubeObject)
    .filter(({ kind = "" }) => kind === "Namespace" || RIGHTS.has(kind));
  for (const object of manifests) {
    const { apiVersion = "", kind = "", metadata } = object;
    const namespace = metadata?.namespace;
    await calls.create({ apiVersion, plural: pluralOf(kind), ...(namespace !== undefined && { namespace }) }, object);
  }
  const account = manifests.find(({ kind }) => kind === "ServiceAccount")?.metadata;
  const request: TokenRequest = {
    apiVersion: "authentication.k8s.io/v1",
    kind: "TokenRequest",
    metadata: { name: account?.name ?? "" },
    spec: { expirationSeconds: 3600 },
  };
  const accounts = { apiVersion: "v1", plural: "serviceaccounts", namespace: account?.namespace ?? "" };
  const { status } = await calls.create(accounts, request, { subresource: "token" });
  const cluster = loadKube(kubeconfig).getCurrentCluster();
  const content = {
    apiVersion: "v1",
    kind: "Config",
    clusters: [
      { name: "cluster", cluster: { server: cluster?.server, "certificate-authority-data": cluster?.caData } },
    ],
    users: [{ name: "engine", user: { token: status?.token } }],
    contexts: [{ name: "engine", context: { cluster: "cluster", user: "engine" } }],
    "current-context": "engine",
  };
  const file = join(directory, "limited.kubeconfig");
  await writeFile(file, JSON.stringify(content), { mode: 0o600 });
  return file;
}

function pluralOf(kind: string): string {
  return `${kind.toLowerCase()}s`.replace(/ys$/, "ies");
}
