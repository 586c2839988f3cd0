import { mkdir } from "node:fs/promises";
import { dirname } from "node:path";
import { credentialsFileOf, keepCredentials } from "./credentials.ts";
import { renderKubeconfig } from "./write-kubeconfig.ts";

/** Which files of the cluster were looked at or made: their owner has to be whoever runs it. */
export type PreparedAccess = { readonly kubeconfig: string; readonly files: readonly string[] };

/**
 * The kubeconfig of a cluster that persists in this directory, as whoever reaches it at `url` needs it; also before its first start, which goes on with the credentials that are
 * made here. `url` names 127.0.0.1, localhost, or the host that the cluster is started with.
 */
export async function prepareAccess(directory: string, url: string, nowMs: number): Promise<PreparedAccess> {
  const file = credentialsFileOf(directory);
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  const { authority, token } = await keepCredentials(file, nowMs);
  return { kubeconfig: renderKubeconfig({ url, ca: authority.cert, token }), files: [dirname(file), file] };
}
