import type { ServiceReplica } from "./build-doctor-report.ts";

const OF_ENGINE = "provision-";

/** Returns ids of the engines that have a replica on the bus. */
export function listEngines(replicas: readonly Pick<ServiceReplica, "name">[]): string[] {
  const names = replicas.flatMap(({ name }) => (name.startsWith(OF_ENGINE) ? [name.slice(OF_ENGINE.length)] : []));
  return [...new Set(names)].sort();
}
