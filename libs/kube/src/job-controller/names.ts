import { throwFault } from "@muster/faults";
import { checkDnsLabel } from "@muster/names";

/**
 * Name of one member, pod and service alike: `job-type-index` in lower case. The same for ever, so that creating a member twice is AlreadyExists and never two.
 * Throws FaultError invalid_request for what is no DNS label: a name of more than 63 characters would be cut for the pod's host name and refused for its service.
 */
export function genGeneralName(jobName: string, replicaType: string, index: number): string {
  const name = `${jobName}-${replicaType}-${index}`.replaceAll("/", "-").toLowerCase();
  const fault = checkDnsLabel("metadata.name", name);
  return fault === undefined ? name : throwFault(fault, { doing: `naming replica ${replicaType} ${index}` });
}
