import type { JobSpec, Member, ReplicaSpec } from "./job.ts";
import { buildMemberName } from "./member-names.ts";
import { buildJobLabels } from "./member-labels.ts";
import { buildComponentLabel, type JobToBuild, type MemberKeys, buildOwnerLabels } from "./member-metadata.ts";
import { buildOwnerReference } from "./ownership.ts";

/** The member, or the job as a whole, that the service names. */
export type ServiceOwner = Member | "job";

/**
 * Builds a headless service: a DNS name for all pods of a job (`<pod>.<job>`) or for one of them. It includes unready pods, because the processes of a gang
 * need each other's addresses before any is ready.
 */
export function buildService(request: JobToBuild, owner: ServiceOwner, keys: MemberKeys) {
  const { kind, job, spec } = request;
  const ofJob = buildJobLabels(kind.labelKeys, job);
  const { [kind.labelKeys.jobRoleLabelKey]: _role, ...ofMember } =
    owner === "job" ? ofJob : kind.labels(job, owner, spec);
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: {
      name: owner === "job" ? job.name : buildMemberName(job, owner),
      namespace: job.namespace,
      labels: {
        ...(owner === "job" ? ofJob : kind.labels(job, owner, spec)),
        ...buildOwnerLabels(request, keys),
        ...(owner !== "job" && buildComponentLabel(owner, keys)),
      },
      ownerReferences: [buildOwnerReference(kind, job)],
    },
    spec: {
      clusterIP: "None",
      publishNotReadyAddresses: true,
      selector: { ...ofMember, [keys.labels.ownerUid]: job.uid },
      ports: owner === "job" ? portsOfJob(spec) : portsOfReplica(spec, owner.type),
    },
  };
}

/** Returns the services that a job needs, by name. */
export function groupServiceOwners({ kind, job, spec }: JobToBuild): ReadonlyMap<string, ServiceOwner> {
  if (kind.services === "one-a-job") return new Map([[job.name, "job"]]);
  const members = spec.replicas.filter(({ port }) => port !== undefined).flatMap(allMembers);
  return new Map(members.map((member) => [buildMemberName(job, member), member]));
}

function allMembers({ type, replicas }: ReplicaSpec): readonly Member[] {
  return Array.from({ length: replicas }, (_, index) => ({ type, index }));
}

type Port = { readonly name: string; readonly port: number; readonly protocol: string };

/** Returns one port per number, named after the first type that has it. */
function portsOfJob(spec: JobSpec): readonly Port[] {
  return eachOnce(
    spec.replicas.flatMap(({ type, port }) =>
      port === undefined ? [] : [{ name: type, port: port.number, protocol: "TCP" }],
    ),
  );
}

/** Returns all ports of the main container, and the port with which the framework's processes find each other. */
function portsOfReplica(spec: JobSpec, type: string): readonly Port[] {
  const replica = spec.replicas.find((each) => each.type === type);
  const main = replica?.template.spec.containers.find(({ name }) => name === replica.mainContainer);
  const own = (main?.ports ?? []).map(({ name, containerPort, protocol = "TCP" }) => ({
    name: name ?? `port-${containerPort}`,
    port: containerPort,
    protocol,
  }));
  const port = replica?.port;
  return eachOnce([...(port === undefined ? [] : [{ name: port.name, port: port.number, protocol: "TCP" }]), ...own]);
}

function eachOnce(ports: readonly Port[]): readonly Port[] {
  const seen = new Set<string>();
  return ports.filter(({ port, protocol }) => {
    const key = `${port}/${protocol}`;
    const isNew = !seen.has(key);
    seen.add(key);
    return isNew;
  });
}
