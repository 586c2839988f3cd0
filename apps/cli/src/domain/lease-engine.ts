import type { ServiceReplica } from "./build-doctor-report.ts";

/** What an engine says of itself. */
export type EngineIdentity = {
  readonly engine: string;
  /** The public key that it signs with, in base58; secrets are sealed to it. */
  readonly key: string;
};

const OF_ENGINE = "provision-";

/** Ids of the engines that have a replica on the bus. */
export function enginesOf(replicas: readonly Pick<ServiceReplica, "name">[]): string[] {
  const names = replicas.flatMap(({ name }) => (name.startsWith(OF_ENGINE) ? [name.slice(OF_ENGINE.length)] : []));
  return [...new Set(names)].sort();
}
