import type { KubeConfig } from "@kubernetes/client-node";
import { throwFault } from "@muster/faults";
import { kubeFault, openGet } from "@muster/kube";

export type LogRange = { readonly offset: number; readonly limitBytes: number };

/** Reads what a container has written from the offset on, at most so many bytes. Rejects with FaultError. */
export async function readPodLog(
  config: KubeConfig,
  pod: { readonly namespace: string; readonly name: string; readonly container: string },
  { offset, limitBytes }: LogRange,
  signal: AbortSignal,
): Promise<Uint8Array> {
  const path = `/api/v1/namespaces/${pod.namespace}/pods/${pod.name}/log`;
  try {
    // The API server knows no offset; it is asked for the beginning up to where the range ends.
    const query = { container: pod.container, limitBytes: offset + limitBytes };
    const response = await openGet(config, path, query, signal);
    const chunks: Uint8Array[] = [];
    let skip = offset;
    for await (const chunk of response as AsyncIterable<Uint8Array>) {
      if (skip >= chunk.length) skip -= chunk.length;
      else {
        chunks.push(chunk.subarray(skip));
        skip = 0;
      }
    }
    return Buffer.concat(chunks);
  } catch (error) {
    const fault = kubeFault(error);
    if (fault === undefined) throw error;
    return throwFault(fault, { cause: error, doing: `reading the log of ${pod.name}/${pod.container}` });
  }
}
