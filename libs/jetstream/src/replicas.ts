import type { NatsConnection } from "@nats-io/nats-core";
import { FaultError } from "@muster/faults";

/** What a cluster of NATS can do at most. */
const REPLICAS_MAX = 5;

/** "replicas > 1 not supported in non-clustered mode": another configuration of NATS is needed. */
const NOT_CLUSTERED = 10074;
/** "no suitable peers for placement": servers of the cluster are away, or have not joined yet. */
const NO_PEERS = 10005;
const RETRY_AFTER_MS = 500;

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

/** What to throw when the servers cannot have so many replicas, for ever or now (unavailable); undefined for any other error. */
export function replicasRefused(error: unknown, stream: string): FaultError | undefined {
  if (!(error instanceof Error) || !("code" in error)) return undefined;
  const what = `replicas of stream ${stream}`;
  if (error.code === NOT_CLUSTERED)
    return new FaultError({ code: "invalid_request", field: what, reason: error.message }, { cause: error });
  if (error.code === NO_PEERS)
    return new FaultError(
      { code: "unavailable", dependency: "nats", retryAfterMs: RETRY_AFTER_MS },
      { cause: error, doing: what },
    );
  return undefined;
}
