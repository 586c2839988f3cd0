import { mkdir } from "node:fs/promises";
import { dirname } from "node:path";
import { buildCredentialsPath, keepCredentials } from "./credentials.ts";
import { renderKubeconfig } from "./write-kubeconfig.ts";

/** The files that were read or created; they must belong to the user that runs the cluster. */
export type PreparedAccess = { readonly kubeconfig: string; readonly files: readonly string[] };

/**
 * Returns the kubeconfig of a cluster that persists in this directory, for clients that reach it at `url`. It also works before the first start, which then
 * uses the credentials created here. `url` names 127.0.0.1, localhost, or the host that the cluster is started with.
 */
export async function prepareAccess(directory: string, url: string, nowMs: number): Promise<PreparedAccess> {
  const file = buildCredentialsPath(directory);
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  const { authority, token } = await keepCredentials(file, nowMs);
  return { kubeconfig: renderKubeconfig({ url, ca: authority.cert, token }), files: [dirname(file), file] };
}
