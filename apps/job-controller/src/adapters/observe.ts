import type { V1Pod, V1Service } from "@kubernetes/client-node";
import type { KubeCalls } from "@muster/kube";
import type { RejectionMemory } from "@muster/health";
import { annotations, labels } from "@muster/proto";
import type { PodDefaults } from "@muster/resources";
import type { Crowding, Nodes } from "@muster/watch";
import { buildComponentName, buildOwnerId } from "../domain/build-units.ts";
import type { CompanionObject, Kind, KindDefaults } from "../domain/kind.ts";
import { groupServiceOwners, type ServiceOwner } from "../domain/build-service.ts";
import type { QueueChoice } from "@muster/ledger-client/choose-queue";
import type { PodFact, ReplicaSeen, Snapshot, TakenName } from "../domain/snapshot.ts";
import { listRejectedPods } from "../domain/list-rejected-pods.ts";
import { listPods } from "../domain/job-pods.ts";
import { buildJobLabels } from "../domain/member-labels.ts";
import { listSharedNodes, groupTolerationsByNode } from "../domain/member-machines.ts";
import { listPlaces } from "../domain/member-places.ts";
import { buildComponentLabel, buildOwnerLabels } from "../domain/member-metadata.ts";
import { buildMemberName } from "../domain/member-names.ts";
import { withPodDefaults } from "../domain/read-sharing.ts";
import { findController, isDeleting, buildJobKey } from "../domain/ownership.ts";
import { filterPods, slicePods } from "../domain/slice-pods.ts";
import { buildPodsKey, buildServicesKey } from "../members/expectations.ts";
import { findMissingCompanions, NOTHING_MISSING } from "./companions.ts";
import type { ObservedJob } from "../reconcile.ts";
import type { KindRuntime } from "./kind-runtime.ts";
import type { Machines } from "./machines.ts";
import type { PodEnds } from "./pod-ends.ts";
import type { PodGroups } from "./pod-groups.ts";
import type { JobRow } from "./read-job.ts";
import { toPodFact } from "./read-pod.ts";
import type { World } from "./world.ts";

export type ObserveDeps = {
  readonly calls: Pick<KubeCalls, "get">;
  readonly machines: Pick<Machines, "unitsOf">;
  readonly budgetOf: World["budgetOf"];
  readonly groupsOf: PodGroups["groupsOf"];
  /** Returns the pod of this name, whichever owner it has. */
  readonly podNamed: (namespace: string, name: string) => V1Pod | undefined;
  /** Lists pods that were created for this owner id, whichever owner they have now. */
  readonly podsMadeFor: (ownerId: string) => readonly V1Pod[];
  readonly lostAmong: Nodes["lostAmong"];
  readonly usableAmong: Nodes["usableAmong"];
  readonly stateOf: Nodes["stateOf"];
  /** The requests that admission adds to pods of the namespace now. */
  readonly podDefaults: (namespace: string) => PodDefaults;
  readonly crowding: Crowding;
  readonly rejectionsOf: RejectionMemory;
  readonly endsOf: PodEnds["of"];
  /** Returns the queue of a job with these labels in the namespace. */
  readonly queueOf: (labels: JobRow["metadata"]["labels"], namespace: string) => QueueChoice;
  /** The time after its grant within which a gang of the queue must be ready; undefined without such a limit. */
  readonly readyTimeoutOf: (queue: string) => number | undefined;
  readonly defaults: KindDefaults;
  readonly now: () => number;
};

/** The snapshot of a job, with the objects to which steps refer. */
export type Observation = ObservedJob & {
  readonly job: JobRow;
  readonly pods: ReadonlyMap<string, V1Pod>;
  readonly services: ReadonlyMap<string, V1Service>;
  readonly wantedServices: ReadonlyMap<string, ServiceOwner>;
  readonly companions: ReadonlyMap<string, CompanionObject>;
  readonly ignored: readonly Ignored[];
  /** Ended pods that are remembered until the status records them. */
  readonly ends: readonly SeenEnd[];
};

type SeenEnd = { readonly pod: PodFact; readonly isGone: boolean };

/** A pod that is ignored because its index is unreadable. */
type Ignored = { readonly pod: V1Pod; readonly because: string };

const KEYS = { labels, annotations };

/** Observes a job: adopts and releases members, and reads companions that may be missing. All other facts come from caches. */
export async function observeJob(deps: ObserveDeps, runtime: KindRuntime, job: JobRow): Promise<Observation> {
  const { controller, kind } = runtime;
  const { metadata, status } = job;
  const [nowMs, spec] = [deps.now(), admittedSpec(deps, job)];
  const canAdopt = controller.recheckDeletionTimestamp(job);
  const pods = await controller.claimPods(job, canAdopt);
  const services = await controller.claimServices(job, canAdopt);
  const isClaimed = new Set(pods.claimed.map((pod) => pod.metadata?.uid));
  const ends = deps
    .endsOf(metadata.uid)
    .map(({ pod, isGone }) => ({ pod: isGone ? deleted(pod, nowMs) : pod, isGone }));
  const gone = ends.flatMap(({ pod, isGone }) => (isGone && !isClaimed.has(pod.metadata?.uid) ? [pod] : []));
  const factOf = factsWith(ends.map(({ pod }) => pod));
  const { replicas, unknownTypes, ignored } = sortPods(runtime, job, { pods: [...pods.claimed, ...gone], factOf });
  const units = deps.machines.unitsOf(buildOwnerId(metadata));
  const machines = units.flatMap((unit) => (unit.state === "granted" ? [...unit.nodes.values()] : []));
  const tolerations = groupTolerationsByNode(spec, units);
  const made = deps.podsMadeFor(buildOwnerId(metadata));
  const occupied = new Set([...pods.claimed, ...made].flatMap((pod) => pod.spec?.nodeName ?? []));
  const wantedServices =
    "problems" in spec ? new Map<string, ServiceOwner>() : groupServiceOwners({ kind, job: metadata, spec });
  const present = services.claimed.filter(({ metadata: of }) => of?.deletionTimestamp === undefined);
  const gang = units.find(({ id }) => id === buildOwnerId(metadata));
  const companions = "problems" in spec ? [] : kind.companions(metadata, spec, deps.defaults);
  const named = new Map(companions.map((each) => [`${each.kind}/${each.metadata.name}`, each]));
  const types = "problems" in spec ? [] : spec.replicas.map(({ type }) => type);
  const snapshot: Snapshot = {
    nowMs,
    job: jobFact(job, nowMs),
    spec,
    status,
    replicas,
    podsSettled: controller.expectations.podsSatisfied(metadata.uid),
    unknownTypes: unknownTypes.map(factOf),
    unreadable: ignored.map(({ pod }) => factOf(pod)),
    released: made
      .filter((pod) => findController(pod)?.uid !== metadata.uid && !isClaimed.has(pod.metadata?.uid))
      .map(toPodFact),
    namesTaken: namesTaken(deps, runtime.kind, job, replicas),
    services: {
      present: present.map(({ metadata: of }) => of?.name ?? ""),
      wanted: [...wantedServices.keys()],
      settled: types.every((type) => controller.expectations.satisfied(buildServicesKey(metadata.uid, type))),
    },
    ...(replicas.some(({ slots }) => slots.includes(undefined)) && gang?.state === "granted"
      ? await findMissingCompanions(deps.calls, job, named)
      : NOTHING_MISSING),
    budget: deps.budgetOf(metadata, buildJobLabels(kind.labelKeys, metadata)),
    groups: deps.groupsOf(metadata, "problems" in spec ? undefined : spec.group?.scheduler),
    ...queueFacts(deps, metadata, gang),
    units: units.length === 0 ? [{ id: buildOwnerId(metadata), state: "none" }] : units,
    nodesLost: [...deps.lostAmong(new Set([...machines, ...occupied]), { nowMs, occupied, tolerations }).keys()],
    nodesBack: [...deps.usableAmong(replacedNodes(gang, status.replaced), nowMs, tolerations)],
    nodesUnschedulable: [...deps.lostAmong(listSharedNodes(units), { nowMs, occupied: new Set(), tolerations }).keys()],
  };
  return {
    job,
    snapshot: { ...snapshot, ...findReadyNodes(deps, snapshot, occupied), ...findUnusableMachines(deps, snapshot) },
    sinceWriteMs: runtime.sinceWriteMs(buildJobKey(job)),
    busyForMs: runtime.busyForMs(),
    pods: new Map(pods.claimed.map((pod) => [pod.metadata?.uid ?? "", pod])),
    services: new Map(services.claimed.map((service) => [service.metadata?.name ?? "", service])),
    wantedServices,
    companions: named,
    errors: [...pods.errors, ...services.errors],
    ignored,
    ends: ends.map(({ pod, isGone }) => ({ pod: factOf(renameMember(kind, job, pod)), isGone })),
  };
}

/** Returns the machines that have no room for the next pod of a member, or have rejected one. */
function findUnusableMachines(
  { crowding, rejectionsOf }: Pick<ObserveDeps, "crowding" | "rejectionsOf">,
  snapshot: Snapshot,
): Pick<Snapshot, "crowded" | "rejections"> {
  const { job, spec, units, status, nowMs } = snapshot;
  const pods = listPods(snapshot);
  const crowded = crowding(job.uid, listPlaces({ spec, units, status, pods }), nowMs);
  const rejections = rejectionsOf(job.uid, listRejectedPods(pods), nowMs);
  return { ...(crowded.length > 0 && { crowded }), ...(rejections.length > 0 && { rejections }) };
}

/** Returns the queue of the job; a granted gang keeps its queue, whichever one the labels name now. */
function queueFacts(
  { queueOf, readyTimeoutOf }: Pick<ObserveDeps, "queueOf" | "readyTimeoutOf">,
  { labels: ofJob, namespace }: JobRow["metadata"],
  gang: Snapshot["units"][number] | undefined,
): Pick<Snapshot, "queue" | "readyTimeoutMs"> {
  const granted = gang?.state === "granted" ? gang.queue : undefined;
  return {
    queue: queueOf(ofJob, namespace),
    readyTimeoutMs: granted === undefined ? undefined : readyTimeoutOf(granted),
  };
}

/** Returns the responsive nodes, only if a plan depends on them. */
export function findReadyNodes(
  { stateOf }: Pick<ObserveDeps, "stateOf">,
  { units, nowMs }: Pick<Snapshot, "units" | "nowMs">,
  occupied: ReadonlySet<string>,
): Pick<Snapshot, "nodesReady"> {
  if (units.every((unit) => unit.state !== "granted" || unit.preemption === undefined)) return {};
  const isReady = (node: string): boolean => {
    const state = stateOf(node, nowMs);
    return state?.ready === true && !state.deleted;
  };
  return { nodesReady: [...occupied].filter(isReady) };
}

/** Returns the spec with the requests that admission adds to its pods. */
function admittedSpec({ podDefaults }: Pick<ObserveDeps, "podDefaults">, { metadata, spec }: JobRow): JobRow["spec"] {
  return "problems" in spec ? spec : withPodDefaults(spec, podDefaults(metadata.namespace));
}

/** Returns the gang's machines whose members wait for a replacement. */
function replacedNodes(gang: Snapshot["units"][number] | undefined, replaced: readonly string[]): readonly string[] {
  return gang?.state === "granted" ? replaced.flatMap((component) => gang.nodes.get(component) ?? []) : [];
}

function jobFact({ metadata, cancelled }: JobRow, nowMs: number): Snapshot["job"] {
  return {
    namespace: metadata.namespace,
    name: metadata.name,
    uid: metadata.uid,
    generation: metadata.generation ?? 0,
    createdMs: new Date(metadata.creationTimestamp ?? nowMs).getTime(),
    deleting: metadata.deletionTimestamp !== undefined,
    cancelled,
  };
}

/** Returns the member names that foreign pods occupy. A pod that is being deleted frees its name soon, so it does not count. */
function namesTaken(
  { podNamed }: Pick<ObserveDeps, "podNamed">,
  kind: Kind,
  { metadata }: JobRow,
  replicas: readonly ReplicaSeen[],
): TakenName[] {
  const missing = replicas.flatMap(({ type, slots }) =>
    slots.flatMap((pod, index) => (pod === undefined ? [buildMemberName(metadata, { type, index })] : [])),
  );
  return missing.flatMap((name) => {
    const pod = podNamed(metadata.namespace, name);
    if (pod === undefined || isDeleting(pod)) return [];
    const owner = findController(pod);
    if (owner?.uid === metadata.uid) return [];
    const earlier = owner?.kind === kind.kind && owner.name === metadata.name;
    const words = owner === undefined ? "no owner" : `${earlier ? "an earlier " : ""}${owner.kind} ${owner.name}`;
    return [{ pod: name, owner: words }];
  });
}

/** Marks a pod as deleted, because only the record of its end remains. */
function deleted(pod: V1Pod, nowMs: number): V1Pod {
  return { ...pod, metadata: { ...pod.metadata, deletionTimestamp: new Date(nowMs) } };
}

function factsWith(ends: readonly V1Pod[]): (pod: V1Pod) => PodFact {
  const endedFirst = new Set(ends.map(({ metadata }) => metadata?.uid));
  return (pod) => ({ ...toPodFact(pod), endedFirst: endedFirst.has(pod.metadata?.uid) });
}

function sortPods(
  runtime: KindRuntime,
  job: JobRow,
  { pods, factOf }: { readonly pods: readonly V1Pod[]; readonly factOf: (pod: V1Pod) => PodFact },
): { replicas: ReplicaSeen[]; unknownTypes: V1Pod[]; ignored: Ignored[] } {
  const { metadata } = job;
  const { controller, kind } = runtime;
  const ignored: Ignored[] = [];
  const specs = "problems" in job.spec ? [] : job.spec.replicas;
  const members = pods.map((pod) => renameMember(kind, job, pod));
  const rest = new Set(members);
  const replicas = specs.map(({ type, replicas: count }): ReplicaSeen => {
    const ofType = filterPods(members, type, kind.labelKeys);
    for (const pod of ofType) rest.delete(pod);
    const slices = slicePods(ofType, count, kind.labelKeys);
    ignored.push(...slices.ignored.map(({ member, because }) => ({ pod: member, because })));
    return {
      type,
      slots: slices.slots.map((pod) => (pod === undefined ? undefined : factOf(pod))),
      surplus: slices.surplus.map(({ member, because }) => ({
        pod: factOf(member),
        because: because === "duplicate" ? "duplicate-index" : "index-out-of-range",
      })),
      podsSettled: controller.expectations.satisfied(buildPodsKey(metadata.uid, type)),
    };
  });
  return { replicas, unknownTypes: [...rest], ignored };
}

/**
 * Reads a pod under a member's own name as that member, with the labels of its creation. Its current labels do not matter: a name is immutable, and no other
 * pod can have it.
 */
export function renameMember(kind: Kind, { metadata, spec }: JobRow, pod: V1Pod): V1Pod {
  if ("problems" in spec) return pod;
  const [, prefix = "", index = ""] = /^(.*-)(0|[1-9]\d{0,5})$/.exec(pod.metadata?.name ?? "") ?? [];
  const type = spec.replicas.find((replica) => prefix === `${metadata.name}-${replica.type}-`)?.type;
  if (type === undefined) return pod;
  const member = { type, index: Number(index) };
  const written = pod.metadata?.labels;
  const { replicaTypeLabelKey, replicaIndexLabelKey } = kind.labelKeys;
  const isWhole =
    written?.[replicaTypeLabelKey] === type &&
    written[replicaIndexLabelKey] === index &&
    written[labels.component] === buildComponentName(member);
  if (isWhole) return pod;
  const made = {
    ...kind.labels(metadata, member, spec),
    ...buildOwnerLabels({ job: metadata }, KEYS),
    ...buildComponentLabel(member, KEYS),
  };
  return { ...pod, metadata: { ...pod.metadata, labels: { ...written, ...made } } };
}
