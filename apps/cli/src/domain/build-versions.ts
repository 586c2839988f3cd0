import type { ServiceReplica } from "./build-doctor-report.ts";
import { getAppOfArea, LEADER_ONLY } from "./describe-trouble.ts";
import { formatCount } from "./plural.ts";

/** Maximum difference of the minor versions of a command and a service: docs/versions.md. */
const MAX_SKEW = 1;

export type ServiceVersions = {
  readonly service: string;
  readonly versions: readonly string[];
  /** Replicas that answer. */
  readonly replicas: number;
  /** Replicas that stand by do not answer, so their number and their versions are unknown. */
  readonly leaderOnly?: true;
};

/** Returns the versions of each service that answers, sorted by name. */
export function buildServiceVersions(replicas: readonly ServiceReplica[]): ServiceVersions[] {
  const areas = [...new Set(replicas.map(({ name }) => name))];
  return areas
    .map((area) => {
      const own = replicas.filter(({ name }) => name === area);
      const versions = [...new Set(own.map(({ version }) => version))].sort();
      const service = getAppOfArea(area);
      return {
        service,
        versions,
        replicas: own.length,
        ...(LEADER_ONLY.has(service) && { leaderOnly: true as const }),
      };
    })
    .sort((a, b) => (a.service < b.service ? -1 : 1));
}

/** Formats one line per service, for people. `leader only`: its other replicas do not answer. */
export function buildVersionLines(services: readonly ServiceVersions[]): string[] {
  return services.map(
    ({ service, versions, replicas, leaderOnly }) =>
      `${service} ${versions.join(" and ")} (${leaderOnly ? "leader only" : formatCount(replicas, "replica")})`,
  );
}

/** Returns whether a command and a service of these versions work together by the version policy. Unknown version formats count as supported. */
export function isSupportedSkew(client: string, service: string): boolean {
  const [own, other] = [minorOf(client), minorOf(service)];
  if (own === undefined || other === undefined) return true;
  return own.major === other.major && Math.abs(own.minor - other.minor) <= MAX_SKEW;
}

function minorOf(version: string): { readonly major: number; readonly minor: number } | undefined {
  const [, major, minor] = /^(\d+)\.(\d+)\./.exec(version) ?? [];
  return major === undefined || minor === undefined ? undefined : { major: Number(major), minor: Number(minor) };
}
