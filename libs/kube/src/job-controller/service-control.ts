import type { V1Service } from "@kubernetes/client-node";
import type { JobObject } from "./controller-interface.ts";
import { memberControl, type CreateOutcome, type DeleteOutcome, type MemberControlDeps } from "./member-control.ts";
import type { Member, OwnerReference } from "./member.ts";

export type ServiceControl<Job extends JobObject> = {
  /** Events SuccessfulCreateService and FailedCreateService. */
  createService(job: Job, service: V1Service): Promise<CreateOutcome<V1Service>>;
  /** Events SuccessfulDeleteService and FailedDeleteService. */
  deleteService(job: Job, service: Member): Promise<DeleteOutcome>;
};

export function serviceControl<Job extends JobObject>(deps: MemberControlDeps<V1Service, Job>): ServiceControl<Job> {
  const control = memberControl("Service", deps);
  return { createService: control.create, deleteService: control.delete };
}

export type ReplicaService = {
  readonly name: string;
  /** Of the replica; the service selects by them, too. */
  readonly labels: Readonly<Record<string, string>>;
  readonly ports: readonly { readonly name?: string; readonly port: number }[];
};

/** The service that gives one replica a name of its own: no address, the labels of the replica as selector. */
export function buildReplicaService(namespace: string, replica: ReplicaService, owner: OwnerReference): V1Service {
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: { namespace, name: replica.name, labels: replica.labels, ownerReferences: [owner] },
    spec: {
      clusterIP: "None",
      selector: replica.labels,
      // A gang finds itself by these names while it starts, before anybody is ready.
      publishNotReadyAddresses: true,
      ports: replica.ports.map(({ name, port }) => ({ port, ...(name !== undefined && { name }) })),
    },
  };
}
