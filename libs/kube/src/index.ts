export { kubeClient } from "./kube-client.ts";
export { openGet } from "./kube-http.ts";
export type { Query } from "./kube-http.ts";
export { openPodLog, readLogRange } from "./pod-log.ts";
export type { LogRange, PodLog } from "./pod-log.ts";
export { followLogs } from "./follow-logs.ts";
export type { FollowedLog, FollowedPart, FollowLimits, LogFollowers } from "./follow-logs.ts";
export { informer } from "./informer.ts";
export type { Informer, InformerOptions, InformerTiming } from "./informer.ts";
export type { IndexBy } from "./cache.ts";
export { keyOf } from "./cache.ts";
export { kubeFault, statusMessage } from "./kube-fault.ts";
export { unlessFault, unlessMissing } from "./unless-fault.ts";
export type { KubeObject, ListPage, ListWatch, WatchEvent } from "./list-watch.ts";
export { listPages } from "./list-pages.ts";
export { listWatch } from "./list-watch.ts";
export { loadKube } from "./load-kube.ts";
export { loadServiceKube } from "./load-service-kube.ts";
export { workQueue } from "./work-queue.ts";
export type { Priority, WorkQueue, WorkQueueOptions, WorkQueueStats } from "./work-queue.ts";
export { DEFAULT_RATE_LIMITS, rateLimiter } from "./rate-limiter.ts";
export type { RateLimiter, RateLimits } from "./rate-limiter.ts";
export { systemClock } from "./clock.ts";
export type { Clock } from "./clock.ts";
export { kubeCalls } from "./kube-calls.ts";
export type { CallOptions, CreateOptions, DeleteOptions, KubeCalls, KubeResource, PatchKind } from "./kube-calls.ts";
export { runController } from "./controller.ts";
export type { ControllerOptions, Reconcile, Reconciled } from "./controller.ts";
export { startResync } from "./resync.ts";
export { jobController } from "./job-controller/job-controller.ts";
export type {
  JobController,
  JobControllerConfiguration,
  JobControllerDeps,
  MemberId,
  PodToCreate,
  ServiceToCreate,
} from "./job-controller/job-controller.ts";
export type {
  ControllerInterface,
  GroupVersionKind,
  JobObject,
  LabelScheme,
} from "./job-controller/controller-interface.ts";
export { jobKey } from "./job-controller/controller-interface.ts";
export {
  EXPECTATION_MS,
  genExpectationPodsKey,
  genExpectationServicesKey,
  makeExpectations,
} from "./job-controller/expectations.ts";
export type { Expectations, Outstanding } from "./job-controller/expectations.ts";
export { genGeneralName } from "./job-controller/names.ts";
export { genLabels, genMemberLabels, MASTER_ROLE, selects } from "./job-controller/member-labels.ts";
export type { Labels } from "./job-controller/member-labels.ts";
export { controllerOf, isDeleting, labelsOf } from "./job-controller/member.ts";
export type { Member, OwnerReference, PodMember } from "./job-controller/member.ts";
export { genOwnerReference, requireOwnerReference } from "./job-controller/owner-reference.ts";
export { decideClaim } from "./job-controller/claims.ts";
export type { Claimant, ClaimCandidate, ClaimVerdict } from "./job-controller/claims.ts";
export { claimMembers, recheckDeletionTimestamp } from "./job-controller/claim-members.ts";
export type { Claimed, ClaimDeps } from "./job-controller/claim-members.ts";
export { claimantIndex, findCandidates } from "./job-controller/claimant-index.ts";
export type { ClaimantCache } from "./job-controller/claimant-index.ts";
export {
  filterPodsForReplicaType,
  filterServicesForReplicaType,
  getPodSlices,
  getServiceSlices,
} from "./job-controller/slices.ts";
export type { IgnoredReason, Slices, SurplusReason } from "./job-controller/slices.ts";
export { isOutcomeUnknown, memberCalls } from "./job-controller/member-calls.ts";
export type { MemberCalls } from "./job-controller/member-calls.ts";
export type { CreateOutcome, DeleteOutcome, MemberControlDeps, RecordEvent } from "./job-controller/member-control.ts";
export { buildPod, podControl } from "./job-controller/pod-control.ts";
export type { PodControl } from "./job-controller/pod-control.ts";
export { buildReplicaService, serviceControl } from "./job-controller/service-control.ts";
export type { ReplicaService, ServiceControl } from "./job-controller/service-control.ts";
export { createMembers, deleteMembers } from "./job-controller/change-members.ts";
export type { Accounting, ChangeReport } from "./job-controller/change-members.ts";
export { slowStart } from "./job-controller/slow-start.ts";
export { jobEvents } from "./job-controller/job-events.ts";
export { memberHandlers } from "./job-controller/handlers.ts";
export type { HandlerDeps, MemberHandlers } from "./job-controller/handlers.ts";
export { planMemberChange } from "./job-controller/plan-member-change.ts";
export type { MemberChange, MemberScheme, MemberStep } from "./job-controller/plan-member-change.ts";
export { deletePdb, selectsExactly, syncPdb } from "./job-controller/pdb.ts";
export type { Ownership } from "./job-controller/pdb.ts";
export {
  deletePodGroup,
  findPodGroupKind,
  POD_GROUP_KINDS,
  POD_GROUPS_PLURAL,
  podGroupDifference,
  servedPodGroupKinds,
  syncPodGroup,
} from "./job-controller/pod-group.ts";
export type { PodGroup, PodGroupKind, PodGroupSettings, PodGroupSpec } from "./job-controller/pod-group.ts";
export type { OwnedObjectDeps, SyncOutcome } from "./job-controller/owned-object.ts";
export { leaderElection } from "./leader-election.ts";
export type { Lead, LeaderElectionOptions, LeaderElectionTiming } from "./leader-election.ts";
export { eventRecorder } from "./event-recorder.ts";
export type { EventRecorder, EventRecorderOptions, EventStats } from "./event-recorder.ts";
export type { EventLimits, EventTarget, RecordedEvent } from "./event-correlation.ts";
export { isServed, requireDefinition } from "./job-controller/served.ts";
