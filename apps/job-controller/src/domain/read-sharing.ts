import { API_GROUP } from "@muster/names";
import { COUNTABLE, isCountable, specRequests, withMinimum, type Requests } from "@muster/resources";
import { initContainersOf } from "./build-pod.ts";
import type { Container, JobSpec, PodTemplate } from "./job.ts";
import type { Fields } from "./read-fields.ts";

/** Annotation of a job or of the pod template of a replica type, which wins: whether members get parts of machines or whole machines. */
export const SHARING_ANNOTATION = `${API_GROUP}/sharing`;

const SHARINGS = ["shared", "exclusive"] as const;
type Sharing = (typeof SHARINGS)[number];

/** Reads the annotation of a job or of a template; undefined if it is absent or invalid. An invalid one is noted as a problem. */
export function readSharing(metadata: Fields | undefined): Sharing | undefined {
  return metadata?.object("annotations")?.oneOf(SHARING_ANNOTATION, SHARINGS);
}

/** Whether the members of a replica type get parts of machines. If so, refuses unreadable amounts, because the ledger counts them. */
export function readIsShared(replica: Fields, ofJob: Sharing | undefined): boolean {
  const template = replica.object("template");
  const isShared = (readSharing(template?.object("metadata")) ?? ofJob) === "shared";
  const spec = template?.object("spec");
  if (isShared && spec !== undefined) checkAmounts(spec);
  return isShared;
}

function checkAmounts(spec: Fields): void {
  const requesting = [...spec.objects("initContainers"), ...spec.objects("containers"), spec];
  const resources = requesting.map((each) => each.object("resources"));
  const amounts = resources.flatMap((each) => [each?.object("requests"), each?.object("limits")]);
  for (const each of [...amounts, spec.object("overhead")])
    for (const name of each?.names ?? [])
      if (!isCountable(name, each?.raw(name))) each?.refuse(name, `must be ${COUNTABLE}`);
}

/**
 * Sets the requests of each type in `shared`; nodes of the others must be able to hold theirs. `addedTo`: the init containers that the kind adds to pods of a
 * type.
 */
export function withRequests(
  spec: JobSpec,
  shared: ReadonlySet<string>,
  addedTo: (type: string) => readonly Container[],
): JobSpec {
  const replicas = spec.replicas.map((replica) => {
    const requests = requestsOf(replica.template, addedTo(replica.type));
    if (shared.has(replica.type)) return { ...replica, shared: requests };
    const selection = withMinimum(replica.selection, requests);
    return selection === replica.selection ? replica : { ...replica, selection };
  });
  return { ...spec, replicas };
}

/** The requests of the pod that is built from the template, without amounts of 0. */
export function requestsOf(template: PodTemplate, added: readonly Container[]): Requests {
  return specRequests({ ...template.spec, initContainers: initContainersOf(added, template) });
}
