import type { JobIdentity } from "./kind.ts";
import type { Member } from "./job.ts";

/** The limit of DNS labels, because names of pods are host names. */
const MAX_NAME_LENGTH = 63;
/** The maximum of machines in one reservation, which covers a whole gang. */
export const MAX_MEMBERS = 1000;

/** Returns the name of a member's pod, and of its service if each pod has one. It never changes, so a repeated creation cannot create a second member. */
export function buildMemberName(job: Pick<JobIdentity, "name">, { type, index }: Member): string {
  return `${job.name}-${type}-${index}`;
}

/** Returns `<service>.<namespace>.svc`, with the domain of the cluster if it is known. */
export function buildServiceHost(service: string, namespace: string, clusterDomain: string | undefined): string {
  return `${service}.${namespace}.svc${clusterDomain === undefined ? "" : `.${clusterDomain}`}`;
}

const DNS_1035 = /^[a-z]([-a-z0-9]*[a-z0-9])?$/;

/** Returns the problem with the name of an object that gets services, or undefined. */
export function checkServiceName(name: string): string | undefined {
  if (DNS_1035.test(name)) return undefined;
  return `"${name}" is no name for a service: lower case letters, digits and '-', beginning with a letter and ending with a letter or digit`;
}

/** Returns the problem with the length of a job's name, given its largest member, or undefined. */
export function checkNameLength(name: string, type: string, replicas: number): string | undefined {
  const longest = buildMemberName({ name }, { type, index: Math.max(0, replicas - 1) });
  if (longest.length <= MAX_NAME_LENGTH) return undefined;
  return `is too long by ${longest.length - MAX_NAME_LENGTH}: "${longest}" is a host name, which has ${MAX_NAME_LENGTH} characters at most`;
}
