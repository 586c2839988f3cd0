import type { KubeConfig } from "@kubernetes/client-node";
import { FaultError } from "@muster/faults";
import { requireKubeFault } from "./kube-fault.ts";
import { openGet, getSharedAgents, type Query } from "./kube-http.ts";

/** The log of one container. */
type PodLog = { readonly namespace: string; readonly pod: string; readonly container: string };

/** Offsets count bytes from the first one that the container has written. */
export type LogRange = { readonly offset: number; readonly limitBytes: number };

/** Shared, because a handshake costs more than a short log. */
const agents = getSharedAgents();

/** Opens the log as a stream; `tailLines`, `limitBytes` and others are the API server's own parameters. Rejects with FaultError, and so does the stream. */
export async function* openPodLog(
  config: KubeConfig,
  log: PodLog,
  query: Query,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array, undefined> {
  const { namespace, pod, container } = log;
  try {
    const path = `/api/v1/namespaces/${namespace}/pods/${pod}/log`;
    const response = await openGet(config, path, { container, ...query }, signal, agents);
    yield* response as AsyncIterable<Uint8Array>;
  } catch (error) {
    throw new FaultError(requireKubeFault(error), { cause: error, doing: `reading the log of ${pod}/${container}` });
  }
}

/**
 * Returns at most `limitBytes` from the offset. The API server supports no offset, so everything before it is read and discarded; a polling client uses
 * `followLogs`. Rejects with FaultError.
 */
export async function readLogRange(
  config: KubeConfig,
  log: PodLog,
  { offset, limitBytes }: LogRange,
  signal: AbortSignal,
): Promise<Uint8Array> {
  const kept: Uint8Array[] = [];
  const end = offset + limitBytes;
  let position = 0;
  for await (const chunk of openPodLog(config, log, { limitBytes: end }, signal)) {
    kept.push(chunk.subarray(Math.max(0, offset - position), Math.max(0, end - position)));
    position += chunk.length;
    if (position >= end) break;
  }
  return Buffer.concat(kept);
}
