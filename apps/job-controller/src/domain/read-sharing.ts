import { API_GROUP } from "@muster/names";
import { amountOf, podRequests, type RequestingPod } from "@muster/resources";
import { initContainersOf } from "./build-pod.ts";
import type { Container, JobSpec, PodTemplate, Requests } from "./job.ts";
import { type Fields, isObject } from "./read-fields.ts";

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

/** 8 PiB. Sums of such amounts are exact numbers. */
const MAX_AMOUNT = 2 ** 43 * 1024;

function checkAmounts(spec: Fields): void {
  const requesting = [...spec.objects("initContainers"), ...spec.objects("containers"), spec];
  const resources = requesting.map((each) => each.object("resources"));
  const amounts = resources.flatMap((each) => [each?.object("requests"), each?.object("limits")]);
  for (const each of [...amounts, spec.object("overhead")])
    for (const name of each?.names ?? []) {
      const amount = amountOf(name, textOf(each?.raw(name)));
      if (amount === undefined || amount < 0 || amount > MAX_AMOUNT)
        each?.refuse(name, `must be a quantity from 0 to 8Pi, such as 500m or 2Gi`);
    }
}

/** Sets the requests of each type in `shared`. `addedTo`: the init containers that the kind adds to pods of a type. */
export function withRequests(
  spec: JobSpec,
  shared: ReadonlySet<string>,
  addedTo: (type: string) => readonly Container[],
): JobSpec {
  if (shared.size === 0) return spec;
  const replicas = spec.replicas.map((replica) =>
    shared.has(replica.type) ? { ...replica, shared: requestsOf(replica.template, addedTo(replica.type)) } : replica,
  );
  return { ...spec, replicas };
}

/** The requests of the pod that is built from the template, without amounts of 0. LimitRange and RuntimeClass are not applied: admission adds theirs later. */
export function requestsOf(template: PodTemplate, added: readonly Container[]): Requests {
  const { spec } = template;
  const pod: RequestingPod = {
    ...resourcesOf(spec),
    containers: spec.containers.map(resourcesOf),
    initContainers: initContainersOf(added, template).map((container) => ({
      ...resourcesOf(container),
      ...(typeof container["restartPolicy"] === "string" && { restartPolicy: container["restartPolicy"] }),
    })),
    overhead: textsOf(spec["overhead"]),
  };
  const requests = [...podRequests(pod)].filter(([, amount]) => amount > 0);
  return Object.fromEntries(requests.sort(([one], [other]) => (one < other ? -1 : 1)));
}

function resourcesOf({ resources }: { readonly [field: string]: unknown }) {
  if (!isObject(resources)) return {};
  return { resources: { requests: textsOf(resources["requests"]), limits: textsOf(resources["limits"]) } };
}

/** Quantities as texts; a manifest may have numbers. */
function textsOf(quantities: unknown): Readonly<Record<string, string>> {
  if (!isObject(quantities)) return {};
  return Object.fromEntries(Object.entries(quantities).map(([name, value]) => [name, textOf(value)]));
}

function textOf(value: unknown): string {
  return typeof value === "string" || typeof value === "number" ? String(value) : "";
}
