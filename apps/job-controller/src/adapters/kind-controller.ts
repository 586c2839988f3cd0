import type { V1Pod, V1Service } from "@kubernetes/client-node";
import { requireKubeFault, type KubeCalls } from "@muster/kube";
import type { Kind } from "../domain/kind.ts";
import { buildJobLabels } from "../domain/member-labels.ts";
import { buildJobKey, buildOwnerReference, type MemberObject } from "../domain/ownership.ts";
import type { MemberChange } from "../domain/plan-member-change.ts";
import type { GroupSpec } from "../domain/pod-group.ts";
import { deleteBudget, syncBudget } from "../members/budget.ts";
import { createMembers, deleteMembers, type ChangeReport } from "../members/change-members.ts";
import {
  claimMembers,
  recheckDeletionTimestamp,
  recheckVersion,
  type ClaimResult,
  type Ownership,
} from "../members/claim-members.ts";
import { findClaimCandidates, type ClaimantCache } from "../members/claimant-index.ts";
import { buildPodsKey, buildServicesKey, type Expectations } from "../members/expectations.ts";
import { makeMemberCalls } from "../members/member-calls.ts";
import {
  createMember,
  deleteMember,
  type CreateOutcome,
  type DeleteOutcome,
  type MembersOfJob,
  type ReportEvent,
} from "../members/member-control.ts";
import { recordMemberChange } from "../members/record-member-change.ts";
import type { OwnedObjectDeps, SyncOutcome } from "../members/owned-object.ts";
import { deletePodGroup, syncPodGroup, type PodGroupKind } from "../members/pod-group.ts";
import { runWhileLeading, type LeadCheck } from "./lead-check.ts";
import type { RecordEvent } from "./gather-events.ts";
import type { JobRow } from "./read-job.ts";

export type KindControllerDeps = {
  readonly calls: Pick<KubeCalls, "get" | "create" | "patch" | "delete">;
  /** Caches with the index of `makeClaimantIndex`. They may keep only a part of each object, with its metadata and status. */
  readonly pods: ClaimantCache<V1Pod>;
  readonly services: ClaimantCache<V1Service>;
  /** Yields all cached jobs. */
  readonly jobs: () => Iterable<JobRow>;
  /** Returns the cached job of this key, which may be stale. */
  readonly job: (key: string) => JobRow | undefined;
  /** Reads the job from the API server. Rejects with an error that `toKubeFault` reads as not_found if the job does not exist. */
  readonly readJob: (job: JobRow) => Promise<JobRow>;
  readonly enqueue: (key: string) => void;
  readonly recordEvent: RecordEvent;
  readonly expectations: Expectations;
  /** Every job has a pass at least this often. */
  readonly syncPeriodMs: number;
};

/** The check before a pass adopts, from `recheckDeletionTimestamp`; one check covers pods, services and gang objects. */
type CanAdopt = () => Promise<void>;

/** The operations on the members of all jobs of one kind. Creations and deletions of many members keep expectations. */
export type KindController = {
  readonly expectations: Expectations;
  /** The interval and the keys of the full resync, for `runController`. */
  readonly resync: { readonly everyMs: number; readonly keys: () => Iterable<string> };
  changePod(change: MemberChange<V1Pod>): void;
  changeService(change: MemberChange<V1Service>): void;

  recheckDeletionTimestamp(job: JobRow): CanAdopt;
  /** Checks the version before pods are created; `plannedFrom` is the version of the job. */
  recheckVersion(job: JobRow, plannedFrom: string | undefined): Promise<void>;
  claimPods(job: JobRow, canAdopt: CanAdopt): Promise<ClaimResult<V1Pod>>;
  claimServices(job: JobRow, canAdopt: CanAdopt): Promise<ClaimResult<V1Service>>;

  /** Creates pods of one type while this process leads. `requireCurrent` rejects if the job has changed since the pods were planned. */
  createPods(
    job: JobRow,
    type: string,
    pods: readonly V1Pod[],
    during: {
      readonly signal: AbortSignal;
      readonly isHeld: LeadCheck;
      readonly requireCurrent: () => Promise<void>;
    },
  ): Promise<ChangeReport>;
  deletePods(job: JobRow, type: string, pods: readonly V1Pod[], signal?: AbortSignal): Promise<ChangeReport>;
  /** Creates the service of a member of this type, and expects it. */
  createMemberService(job: JobRow, type: string, service: V1Service, signal: AbortSignal): Promise<ChangeReport>;
  /** Creates the job's service, which needs no expectation because its name identifies it. */
  createService(job: JobRow, service: V1Service): Promise<CreateOutcome<V1Service>>;
  deleteService(job: JobRow, service: MemberObject): Promise<DeleteOutcome>;

  /** Writes the budget; `isAbsent`: the cache has no budget of that name. Fails as `syncOwnedObject` does. */
  syncBudget(job: JobRow, minAvailable: number, isAbsent: boolean): Promise<SyncOutcome>;
  deleteBudget(job: JobRow): Promise<boolean>;
  syncPodGroup(job: JobRow, kind: PodGroupKind, group: GroupSpec): Promise<SyncOutcome>;
  deletePodGroup(job: JobRow, kind: PodGroupKind): Promise<boolean>;
};

/** Connects the parts in `members/` to the caches and calls of one kind. */
export function makeKindController(kind: Kind, deps: KindControllerDeps): KindController {
  const { calls, pods, services, expectations, recordEvent, enqueue } = deps;
  const podCalls = makeMemberCalls<V1Pod>(calls, "pods");
  const serviceCalls = makeMemberCalls<V1Service>(calls, "services");
  const reportOn =
    (job: JobRow): ReportEvent =>
    (type, reason, message) =>
      recordEvent(job, type, reason, message);
  const podsOf = (job: JobRow): MembersOfJob<V1Pod> => ({ kind: "Pod", calls: podCalls, report: reportOn(job) });
  const servicesOf = (job: JobRow): MembersOfJob<V1Service> => ({
    kind: "Service",
    calls: serviceCalls,
    report: reportOn(job),
  });
  const liveRead = (job: JobRow) => () => deps.readJob(job);
  const recheck = (job: JobRow): CanAdopt => recheckDeletionTimestamp(job, liveRead(job));
  const ownership = (job: JobRow, canAdopt: CanAdopt): Ownership => ({
    labels: buildJobLabels(kind.labelKeys, job.metadata),
    owner: buildOwnerReference(kind, job.metadata),
    canAdopt,
  });
  const owning = (job: JobRow): OwnedObjectDeps => ({ calls, report: reportOn(job) });
  const changes = {
    kind,
    jobOf: (namespace: string, name: string) => deps.job(`${namespace}/${name}`),
    expectations,
    enqueue,
  };
  return {
    expectations,
    resync: { everyMs: deps.syncPeriodMs, keys: () => Array.from(deps.jobs(), buildJobKey) },
    changePod: (change) => recordMemberChange(changes, buildPodsKey, change),
    changeService: (change) => recordMemberChange(changes, buildServicesKey, change),
    recheckDeletionTimestamp: recheck,
    recheckVersion: (job, plannedFrom) => recheckVersion(job, plannedFrom, liveRead(job)),
    claimPods: (job, canAdopt) =>
      claimMembers(job, ownership(job, canAdopt), findClaimCandidates(pods, job), podCalls.patch),
    claimServices: (job, canAdopt) =>
      claimMembers(job, ownership(job, canAdopt), findClaimCandidates(services, job), serviceCalls.patch),
    createPods: (job, type, wanted, { signal, isHeld, requireCurrent }) => {
      const mayRepeat = (): Promise<boolean> =>
        requireCurrent().then(isHeld, (error: unknown) => {
          requireKubeFault(error);
          return false;
        });
      const create = runWhileLeading(isHeld, (pod: V1Pod) => createMember({ ...podsOf(job), mayRepeat }, pod));
      return createMembers(wanted, create, { expectations, key: buildPodsKey(job.metadata.uid, type) }, signal);
    },
    deletePods: (job, type, surplus, signal) => {
      const remove = (pod: V1Pod) => deleteMember(podsOf(job), pod);
      return deleteMembers(surplus, remove, { expectations, key: buildPodsKey(job.metadata.uid, type) }, signal);
    },
    createMemberService: (job, type, wanted, signal) => {
      const create = (service: V1Service) => createMember(servicesOf(job), service);
      return createMembers([wanted], create, { expectations, key: buildServicesKey(job.metadata.uid, type) }, signal);
    },
    createService: (job, service) => createMember(servicesOf(job), service),
    deleteService: (job, service) => deleteMember(servicesOf(job), service),
    syncBudget: (job, minAvailable, isAbsent) =>
      syncBudget(owning(job), job.metadata, minAvailable, { ...ownership(job, recheck(job)), isAbsent }),
    deleteBudget: (job) => deleteBudget(owning(job), job.metadata),
    syncPodGroup: (job, groupKind, group) =>
      syncPodGroup(owning(job), job.metadata, groupKind, group, ownership(job, recheck(job))),
    deletePodGroup: (job, groupKind) => deletePodGroup(owning(job), job.metadata, groupKind),
  };
}
