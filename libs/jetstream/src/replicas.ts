import type { NatsConnection } from "@nats-io/nats-core";
import { FaultError } from "@muster/faults";

/** What a cluster of NATS can do at most. */
const REPLICAS_MAX = 5;

/** "replicas > 1 not supported in non-clustered mode" and "no suitable peers for placement". */
const REFUSED: ReadonlySet<number> = new Set([10074, 10005]);

const replicas = new WeakMap<NatsConnection, number>();

/**
 * Every stream and bucket that is opened over this connection has so many replicas from now on, whoever opens it; one that exists with another number is changed. Said
 * once, where the connection is made, because it is a fact of the installation and of no single stream.
 */
export function keepReplicas(connection: NatsConnection, count: number): void {
  if (!Number.isInteger(count) || count < 1 || count > REPLICAS_MAX)
    throw new FaultError({
      code: "invalid_request",
      field: "replicas",
      reason: `is ${count}; a whole number from 1 to ${REPLICAS_MAX} is needed`,
    });
  replicas.set(connection, count);
}

/** To be spread into a stream's configuration; empty when nobody has said, which leaves an existing stream as it is and makes a new one with one replica. */
export function replicasConfig(connection: NatsConnection): { readonly num_replicas?: number } {
  const count = replicas.get(connection);
  return count === undefined ? {} : { num_replicas: count };
}

/** What to throw when the servers cannot have so many replicas; undefined for any other error. */
export function replicasRefused(error: unknown, stream: string): FaultError | undefined {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  if (!(error instanceof Error) || typeof code !== "number" || !REFUSED.has(code)) return undefined;
  return new FaultError(
    { code: "invalid_request", field: `replicas of stream ${stream}`, reason: error.message },
    { cause: error },
  );
}
