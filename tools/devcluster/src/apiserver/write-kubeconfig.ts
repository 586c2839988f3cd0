import { chmod, mkdir, writeFile } from "node:fs/promises";
import { dirname } from "node:path";

export type KubeconfigUser = { readonly url: string; readonly ca: string; readonly token: string };

/** Writes a kubeconfig with one user, mode 0600, whatever the mode of a file that is there already. */
export async function writeKubeconfig(file: string, user: KubeconfigUser): Promise<void> {
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  await writeFile(file, renderKubeconfig(user), { mode: 0o600 });
  // The mode above holds for new files only.
  await chmod(file, 0o600);
}

export function renderKubeconfig({ url, ca, token }: KubeconfigUser): string {
  const name = "muster-devcluster";
  const content = {
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name, cluster: { server: url, "certificate-authority-data": Buffer.from(ca).toString("base64") } }],
    users: [{ name, user: { token } }],
    contexts: [{ name, context: { cluster: name, user: name, namespace: "default" } }],
    "current-context": name,
  };
  return `${JSON.stringify(content, null, 2)}\n`;
}
