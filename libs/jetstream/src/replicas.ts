import type { NatsConnection } from "@nats-io/nats-core";
import { FaultError } from "@muster/faults";

/** Limit of NATS. */
const MAX_REPLICAS = 5;

/** "replicas > 1 not supported in non-clustered mode": the configuration of NATS must change. */
const NOT_CLUSTERED = 10074;
/** "no suitable peers for placement": servers of the cluster are down, or have not joined yet. */
const NO_PEERS = 10005;
const RETRY_AFTER_MS = 500;

const replicas = new WeakMap<NatsConnection, number>();

/**
 * Sets the number of replicas of every stream and bucket that is opened over this connection; existing ones are changed. Called once, when the connection is
 * created, because the number belongs to the installation and not to a stream.
 */
export function keepReplicas(connection: NatsConnection, count: number): void {
  if (!Number.isInteger(count) || count < 1 || count > MAX_REPLICAS)
    throw new FaultError({
      code: "invalid_request",
      field: "replicas",
      reason: `is ${count}; a whole number from 1 to ${MAX_REPLICAS} is needed`,
    });
  replicas.set(connection, count);
}

/** Part of a stream's configuration. Empty without `keepReplicas`: existing streams stay unchanged, and new ones get one replica. */
export function buildReplicasConfig(connection: NatsConnection): { readonly num_replicas?: number } {
  const count = replicas.get(connection);
  return count === undefined ? {} : { num_replicas: count };
}

/** The error to throw when the servers cannot have this many replicas: invalid_request for ever, unavailable for now. Undefined for any other error. */
export function findReplicasRefusal(error: unknown, stream: string): FaultError | undefined {
  if (!(error instanceof Error) || !("code" in error)) return undefined;
  const subject = `replicas of stream ${stream}`;
  if (error.code === NOT_CLUSTERED)
    return new FaultError({ code: "invalid_request", field: subject, reason: error.message }, { cause: error });
  if (error.code === NO_PEERS)
    return new FaultError(
      { code: "unavailable", dependency: "nats", retryAfterMs: RETRY_AFTER_MS },
      { cause: error, doing: subject },
    );
  return undefined;
}
