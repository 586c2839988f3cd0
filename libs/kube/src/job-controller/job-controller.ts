import type { V1Pod, V1PodTemplateSpec, V1Service } from "@kubernetes/client-node";
import type { KubeCalls } from "../kube-calls.ts";
import type { WorkQueue } from "../work-queue.ts";
import { createMembers, deleteMembers, type ChangeReport } from "./change-members.ts";
import { findCandidates, type ClaimantCache } from "./claimant-index.ts";
import { claimMembers, recheckDeletionTimestamp, type Claimed } from "./claim-members.ts";
import { jobKey, type ControllerInterface, type JobObject } from "./controller-interface.ts";
import {
  genExpectationPodsKey,
  genExpectationServicesKey,
  makeExpectations,
  type Expectations,
} from "./expectations.ts";
import { memberHandlers, type MemberHandlers } from "./handlers.ts";
import { memberCalls } from "./member-calls.ts";
import type { RecordEvent } from "./member-control.ts";
import { genLabels, genMemberLabels, type Labels } from "./member-labels.ts";
import type { OwnerReference } from "./member.ts";
import { genGeneralName } from "./names.ts";
import type { SyncOutcome } from "./owned-object.ts";
import { genOwnerReference } from "./owner-reference.ts";
import { deletePdb, syncPdb, type Ownership } from "./pdb.ts";
import { buildPod, podControl, type PodControl } from "./pod-control.ts";
import { deletePodGroup, syncPodGroup, type PodGroupKind, type PodGroupSpec } from "./pod-group.ts";
import { buildReplicaService, serviceControl, type ReplicaService, type ServiceControl } from "./service-control.ts";
import {
  filterPodsForReplicaType,
  filterServicesForReplicaType,
  getPodSlices,
  getServiceSlices,
  type Slices,
} from "./slices.ts";

export type JobControllerConfiguration = {
  /** Every job is looked at again this often, whatever happens; default 15 s. */
  readonly reconcilerSyncLoopPeriodMs?: number;
  /** Whether gangs get a disruption budget and a pod group; default false. */
  readonly enableGangScheduling?: boolean;
};

export type JobControllerDeps<Job extends JobObject> = {
  readonly calls: Pick<KubeCalls, "get" | "create" | "patch" | "delete">;
  /** Caches with the index of `claimantIndex`. They may keep less of an object than all, but not less than its metadata and status. */
  readonly pods: ClaimantCache<V1Pod>;
  readonly services: ClaimantCache<V1Service>;
  /** All jobs of the cache. */
  readonly jobs: () => Iterable<Job>;
  readonly queue: Pick<WorkQueue, "add">;
  readonly recordEvent: RecordEvent<Job>;
  /** Default: new ones, on the machine's clock. */
  readonly expectations?: Expectations;
};

/** What one pass may ask before it adopts; from `recheckDeletionTimestamp`, once for pods, services and gang objects together. */
type CanAdopt = () => Promise<void>;

/** The half of a job's controller that is the same for every kind of job. Each operation can be used by itself. */
export type JobController<Job extends JobObject> = MemberHandlers<V1Pod, V1Service> & {
  readonly expectations: Expectations;
  readonly podControl: PodControl<Job>;
  readonly serviceControl: ServiceControl<Job>;
  /** For `runController`. */
  readonly resync: { readonly everyMs: number; readonly keys: () => Iterable<string> };

  recheckDeletionTimestamp(job: Job): CanAdopt;
  getPodsForJob(job: Job, canAdopt?: CanAdopt): Promise<Claimed<V1Pod>>;
  getServicesForJob(job: Job, canAdopt?: CanAdopt): Promise<Claimed<V1Service>>;
  filterPodsForReplicaType(pods: readonly V1Pod[], replicaType: string): V1Pod[];
  filterServicesForReplicaType(services: readonly V1Service[], replicaType: string): V1Service[];
  getPodSlices(pods: readonly V1Pod[], replicas: number): Slices<V1Pod>;
  getServiceSlices(services: readonly V1Service[], replicas: number): Slices<V1Service>;

  /** The selector of everything that is the job's. */
  genLabels(jobName: string): Labels;
  /** Name and labels of one member, those labels included that the kind adds. */
  genMember(job: Job, member: MemberId): { readonly name: string; readonly labels: Labels };
  genOwnerReference(job: Job): OwnerReference;

  /** True when the cache shows all that was asked for, of all these types. Until then nothing may be decided by what is missing or too many. */
  satisfiedExpectations(job: Job, replicaTypes: readonly string[]): boolean;
  /** Creates pods of one type, each named and labelled as `genMember` says, with accounts kept. */
  createPods(job: Job, replicaType: string, pods: readonly PodToCreate[], signal?: AbortSignal): Promise<ChangeReport>;
  deletePods(job: Job, replicaType: string, pods: readonly V1Pod[], signal?: AbortSignal): Promise<ChangeReport>;
  /** Creates a service without an address for each of these replicas, named as its pod. */
  createServices(
    job: Job,
    replicaType: string,
    services: readonly ServiceToCreate[],
    signal?: AbortSignal,
  ): Promise<ChangeReport>;
  deleteServices(
    job: Job,
    replicaType: string,
    services: readonly V1Service[],
    signal?: AbortSignal,
  ): Promise<ChangeReport>;

  /** `off` without gang scheduling. Fails as `syncOwnedObject`. */
  syncPdb(
    job: Job,
    minAvailable: number,
    known?: { canAdopt?: CanAdopt; isAbsent?: boolean },
  ): Promise<SyncOutcome | "off">;
  /** Also without gang scheduling: it may have been switched off since. */
  deletePdb(job: Job): Promise<boolean>;
  syncPodGroup(job: Job, kind: PodGroupKind, spec: PodGroupSpec, canAdopt?: CanAdopt): Promise<SyncOutcome | "off">;
  deletePodGroup(job: Job, kind: PodGroupKind): Promise<boolean>;

  /** To be called when the cache drops a job. */
  forgetJob(jobUid: string): void;
};

export type MemberId = { readonly replicaType: string; readonly index: number; readonly isMaster?: boolean };

/** The template's own name is not used; its labels and annotations are kept, but for those that say whose the pod is. */
export type PodToCreate = { readonly index: number; readonly isMaster?: boolean; readonly template: V1PodTemplateSpec };

export type ServiceToCreate = Pick<ReplicaService, "ports"> & { readonly index: number };

const SYNC_LOOP_PERIOD_MS = 15_000;

/** Puts the parts together for one kind of job. */
export function jobController<Job extends JobObject>(
  controller: ControllerInterface<Job>,
  deps: JobControllerDeps<Job>,
  configuration: JobControllerConfiguration = {},
): JobController<Job> {
  const expectations = deps.expectations ?? makeExpectations();
  const enqueue = (key: string): void => deps.queue.add(key);
  return {
    ...memberHandlers<V1Pod, V1Service>(controller, { expectations, enqueue }),
    ...naming(controller),
    ...claiming(controller, deps),
    ...slicing(controller),
    ...changing(controller, deps, expectations),
    ...gang(controller, deps, configuration.enableGangScheduling ?? false),
    expectations,
    resync: {
      everyMs: configuration.reconcilerSyncLoopPeriodMs ?? SYNC_LOOP_PERIOD_MS,
      keys: () => Array.from(deps.jobs(), jobKey),
    },
    satisfiedExpectations: (job, replicaTypes) => expectations.jobSatisfied(job.metadata.uid, replicaTypes),
    forgetJob: (uid) => expectations.deleteJob(uid),
  };
}

type Part<Job extends JobObject, Names extends keyof JobController<Job>> = Pick<JobController<Job>, Names>;

function naming<Job extends JobObject>(
  controller: ControllerInterface<Job>,
): Part<Job, "genLabels" | "genMember" | "genOwnerReference"> {
  return {
    genLabels: (jobName) => genLabels(controller, jobName),
    genMember: (job, { replicaType, index, isMaster = false }) => ({
      name: genGeneralName(job.metadata.name, replicaType, index),
      labels: {
        ...controller.furtherLabels?.({ job, replicaType, index }),
        ...genMemberLabels(controller, job.metadata.name, { replicaType, index, isMaster }),
      },
    }),
    genOwnerReference: (job) => genOwnerReference(controller.apiGroupVersionKind, job),
  };
}

function claiming<Job extends JobObject>(
  controller: ControllerInterface<Job>,
  { calls, pods, services }: JobControllerDeps<Job>,
): Part<Job, "recheckDeletionTimestamp" | "getPodsForJob" | "getServicesForJob"> {
  const recheck = (job: Job): CanAdopt => recheckDeletionTimestamp(job, controller.getJobFromApi);
  const patches = {
    pods: memberCalls<V1Pod>(calls, "pods").patch,
    services: memberCalls<V1Service>(calls, "services").patch,
  };
  const claim = <M extends V1Pod | V1Service>(
    job: Job,
    candidates: readonly M[],
    patch: (namespace: string, name: string, body: object) => Promise<M>,
    canAdopt: CanAdopt,
  ): Promise<Claimed<M>> => {
    const reference = genOwnerReference(controller.apiGroupVersionKind, job);
    return claimMembers(job, reference, genLabels(controller, job.metadata.name), candidates, { patch, canAdopt });
  };
  return {
    recheckDeletionTimestamp: recheck,
    getPodsForJob: (job, canAdopt = recheck(job)) =>
      claim(job, findCandidates(pods, controller, job), patches.pods, canAdopt),
    getServicesForJob: (job, canAdopt = recheck(job)) =>
      claim(job, findCandidates(services, controller, job), patches.services, canAdopt),
  };
}

function slicing<Job extends JobObject>(
  controller: ControllerInterface<Job>,
): Part<Job, "filterPodsForReplicaType" | "filterServicesForReplicaType" | "getPodSlices" | "getServiceSlices"> {
  const { replicaTypeLabelKey: typeKey, replicaIndexLabelKey: indexKey } = controller;
  return {
    filterPodsForReplicaType: (pods, type) => filterPodsForReplicaType(pods, type.toLowerCase(), typeKey),
    filterServicesForReplicaType: (services, type) =>
      filterServicesForReplicaType(services, type.toLowerCase(), typeKey),
    getPodSlices: (pods, replicas) => getPodSlices(pods, replicas, indexKey),
    getServiceSlices: (services, replicas) => getServiceSlices(services, replicas, indexKey),
  };
}

function changing<Job extends JobObject>(
  controller: ControllerInterface<Job>,
  { calls, recordEvent }: JobControllerDeps<Job>,
  expectations: Expectations,
): Part<Job, "podControl" | "serviceControl" | "createPods" | "deletePods" | "createServices" | "deleteServices"> {
  const { genMember, genOwnerReference: ownerOf } = naming(controller);
  const pods = podControl<Job>({ calls: memberCalls<V1Pod>(calls, "pods"), recordEvent });
  const services = serviceControl<Job>({ calls: memberCalls<V1Service>(calls, "services"), recordEvent });
  const podsOf = (job: Job, type: string) => ({ expectations, key: genExpectationPodsKey(job.metadata.uid, type) });
  const servicesOf = (job: Job, type: string) => ({
    expectations,
    key: genExpectationServicesKey(job.metadata.uid, type),
  });
  const podOf = (job: Job, replicaType: string, { template, ...id }: PodToCreate): V1Pod => {
    const { name, labels } = genMember(job, { replicaType, ...id });
    const metadata = { ...template.metadata, name, labels: { ...template.metadata?.labels, ...labels } };
    return buildPod(job.metadata.namespace, { ...template, metadata }, ownerOf(job));
  };
  const serviceOf = (job: Job, replicaType: string, { index, ports }: ServiceToCreate): V1Service =>
    buildReplicaService(job.metadata.namespace, { ...genMember(job, { replicaType, index }), ports }, ownerOf(job));
  return {
    podControl: pods,
    serviceControl: services,
    createPods: async (job, type, wanted, signal) => {
      const built = wanted.map((pod) => podOf(job, type, pod));
      return createMembers(built, (pod) => pods.createPod(job, pod), podsOf(job, type), signal);
    },
    deletePods: (job, type, surplus, signal) =>
      deleteMembers(surplus, (pod) => pods.deletePod(job, pod), podsOf(job, type), signal),
    createServices: async (job, type, wanted, signal) => {
      const built = wanted.map((service) => serviceOf(job, type, service));
      return createMembers(built, (service) => services.createService(job, service), servicesOf(job, type), signal);
    },
    deleteServices: (job, type, surplus, signal) =>
      deleteMembers(surplus, (service) => services.deleteService(job, service), servicesOf(job, type), signal),
  };
}

function gang<Job extends JobObject>(
  controller: ControllerInterface<Job>,
  deps: JobControllerDeps<Job>,
  isEnabled: boolean,
): Part<Job, "syncPdb" | "deletePdb" | "syncPodGroup" | "deletePodGroup"> {
  const ownership = (job: Job, canAdopt: CanAdopt | undefined): Ownership => ({
    labels: genLabels(controller, job.metadata.name),
    owner: genOwnerReference(controller.apiGroupVersionKind, job),
    canAdopt: canAdopt ?? recheckDeletionTimestamp(job, controller.getJobFromApi),
  });
  return {
    syncPdb: async (job, minAvailable, { canAdopt, isAbsent = false } = {}) =>
      isEnabled ? syncPdb(deps, job, minAvailable, { ...ownership(job, canAdopt), isAbsent }) : "off",
    deletePdb: (job) => deletePdb(deps, job),
    syncPodGroup: async (job, kind, spec, canAdopt) =>
      isEnabled ? syncPodGroup(deps, job, kind, spec, ownership(job, canAdopt)) : "off",
    deletePodGroup: (job, kind) => deletePodGroup(deps, job, kind),
  };
}
