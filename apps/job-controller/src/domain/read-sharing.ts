import { API_GROUP } from "@muster/names";
import {
  parseAmount,
  COUNTABLE,
  isCountable,
  NO_DEFAULTS,
  computeSpecRequests,
  withMinimum,
  withoutMinimum,
  type PodDefaults,
  type Requests,
} from "@muster/resources";
import { listInitContainers } from "./build-pod.ts";
import type { Container, JobSpec, ReplicaSpec } from "./job.ts";
import { QUEUE_LABEL } from "@muster/ledger-client/choose-queue";
import type { Fields } from "./read-fields.ts";

/** Annotation of a job, or of the pod template of a replica type, which takes precedence: whether members get parts of machines or whole machines. */
export const SHARING_ANNOTATION = `${API_GROUP}/sharing`;

const SHARINGS = ["shared", "exclusive"] as const;
type Sharing = (typeof SHARINGS)[number];

/** Whether members get parts of machines. The annotation of the job decides, or, for a job with a queue, whether the template has requests. */
type JobSharing = Sharing | "where-requested" | undefined;

/** Reads the annotation of a job, or else whether the job has a queue label. */
export function readJobSharing(metadata: Fields | undefined): JobSharing {
  const isQueued = (metadata?.object("labels")?.text(QUEUE_LABEL) ?? "") !== "";
  return readSharing(metadata) ?? (isQueued ? "where-requested" : undefined);
}

/** Reads the annotation of a job or of a template; undefined if it is absent or invalid. Notes an invalid one as a problem. */
function readSharing(metadata: Fields | undefined): Sharing | undefined {
  return metadata?.object("annotations")?.oneOf(SHARING_ANNOTATION, SHARINGS);
}

/** Whether the members of a replica type get parts of machines. If so, refuses unreadable amounts, because the ledger counts them. */
export function readIsShared(replica: Fields, ofJob: JobSharing): boolean {
  const template = replica.object("template");
  const sharing = readSharing(template?.object("metadata")) ?? ofJob;
  const spec = template?.object("spec");
  const isShared = sharing === "shared" || (sharing === "where-requested" && spec !== undefined && hasRequests(spec));
  if (isShared && spec !== undefined) checkAmounts(spec);
  return isShared;
}

/** Whether a container or the pod itself has a request or a limit, which counts as a request. */
function hasRequests(spec: Fields): boolean {
  return listAmounts(spec).some((each) => each?.names.some((name) => parseAmount(name, String(each.raw(name))) !== 0));
}

function listAmounts(spec: Fields): readonly (Fields | undefined)[] {
  const requesting = [...spec.objects("initContainers"), ...spec.objects("containers"), spec];
  const resources = requesting.map((each) => each.object("resources"));
  return resources.flatMap((each) => [each?.object("requests"), each?.object("limits")]);
}

function checkAmounts(spec: Fields): void {
  for (const each of [...listAmounts(spec), spec.object("overhead")])
    for (const name of each?.names ?? [])
      if (!isCountable(name, each?.raw(name))) each?.refuse(name, `must be ${COUNTABLE}`);
}

/**
 * Sets the requests of each type in `shared`; for a type with whole machines, nodes must be able to provide its requests. `addedTo` returns the init containers
 * that the kind adds to pods of a type.
 */
export function withRequests(
  spec: JobSpec,
  shared: ReadonlySet<string>,
  addedTo: (type: string) => readonly Container[],
): JobSpec {
  const replicas = spec.replicas.map((replica) => {
    const added = addedTo(replica.type);
    const known = { ...replica, ...(added.length > 0 && { addedInitContainers: added }) };
    return addReplicaRequests(shared.has(replica.type) ? { ...known, shared: {} } : known, NO_DEFAULTS);
  });
  return { ...spec, replicas };
}

const admitted = new WeakMap<JobSpec, { readonly defaults: PodDefaults; readonly spec: JobSpec }>();

/** Returns the spec with the requests that remain after admission with these defaults. The same spec and defaults give the same object. */
export function withPodDefaults(spec: JobSpec, defaults: PodDefaults): JobSpec {
  if (Object.keys(defaults.requests).length + defaults.overheads.size === 0) return spec;
  const known = admitted.get(spec);
  if (known?.defaults === defaults) return known.spec;
  const result = { ...spec, replicas: spec.replicas.map((replica) => addReplicaRequests(replica, defaults)) };
  admitted.set(spec, { defaults, spec: result });
  return result;
}

type RequestingReplica = Pick<ReplicaSpec, "template" | "addedInitContainers" | "shared" | "selection">;

/**
 * Returns the replica type with the requests of its pods. For a shared machine they are the needed part; for a whole machine, each node must be able to provide
 * them.
 */
export function addReplicaRequests<Replica extends RequestingReplica>(
  replica: Replica,
  defaults: PodDefaults,
): Replica {
  const requests = computeRequests(replica, defaults);
  if (replica.shared !== undefined) return { ...replica, shared: requests };
  const selection = withMinimum(withoutMinimum(replica.selection), requests);
  return selection === replica.selection ? replica : { ...replica, selection };
}

/** Returns the requests of the pod that is built from the template, without zero amounts. */
export function computeRequests(
  { template, addedInitContainers = [] }: Pick<ReplicaSpec, "template" | "addedInitContainers">,
  defaults: PodDefaults,
): Requests {
  return computeSpecRequests(
    { ...template.spec, initContainers: listInitContainers(addedInitContainers, template) },
    defaults,
  );
}
