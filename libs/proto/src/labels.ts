/** Labels and annotations by which Muster's services recognise pods and nodes. */
export const labels = {
  /** On pods: kind of the owner, such as `session`. */
  ownerKind: "muster.dev/owner-kind",
  /** On pods: id of the owner. Pods without it have no published state; they only use their nodes. */
  owner: "muster.dev/owner",
  /** On pods: uid of the owner, which distinguishes pods of an earlier owner of the same name. */
  ownerUid: "muster.dev/owner-uid",
  /** On pods: name of the component or replica. */
  component: "muster.dev/component",
  /** On pods: `driver`, `server`, `client`. */
  componentKind: "muster.dev/component-kind",
  /** On pods of jobs: which making of the whole gang they belong to. */
  attempt: "muster.dev/attempt",
  /** On pods of replica sets: the set's name, under the name that people who kept pods on nodes before look for. */
  replicationController: "replication_controller_id",
  /** On pods of replica sets: what runs; a node has at most one of each. */
  podId: "pod_id",
  /** On pods: `true` for a whole machine, `false` for a part of one. An exclusive pod excludes pods with either value. */
  exclusive: "muster.dev/exclusive",
  /** On jobs: the queue whose quota they use. */
  queue: "muster.dev/queue",
  /** On namespaces: the queue of jobs that name none. */
  defaultQueue: "muster.dev/default-queue",
  /** On nodes that the node scaler made: the name of their record. */
  scaledNode: "muster.dev/node",
  /** On nodes that a node scaler made: which scaler, where there are several in one cluster. */
  scaler: "muster.dev/scaler",
  /** On objects of a lease: the lease's id. */
  lease: "muster.dev/lease",
  /** On objects of a lease: the number of the run that created them. */
  leaseRun: "muster.dev/lease-run",
  /** On objects of a lease: a hash of its user. */
  leaseUser: "muster.dev/lease-user",
  /** On pods and on objects of leases: id of the installation that created them. Objects without it are older than the ids. */
  installation: "muster.dev/installation",
  /** On what Muster makes, well known: `muster`. */
  managedBy: "app.kubernetes.io/managed-by",
} as const;

/** Scheduling gates of pods: as long as one is there, no scheduler places the pod. */
export const schedulingGates = {
  /** Until its maker has seen, after making it, that it still may. */
  unconfirmed: "muster.dev/unconfirmed",
} as const;

/** Keys of taints. */
export const taints = {
  /** On nodes that the node scaler made, from their creation until it has seen them ready: no pod may use them before. */
  startup: "muster.dev/unopened",
} as const;

export const annotations = {
  /** On pods: name of the container by which the pod is judged; the first one when absent. */
  mainContainer: "muster.dev/main-container",
  /** On jobs: a user cancelled the job; the value has time and reason. */
  cancelled: "muster.dev/cancelled",
  /** On jobs: id of the request that created the job, so that a repeated request finds it. */
  requestId: "muster.dev/request-id",
  /** On jobs of kinds whose status has no field for it: restarts and completed indexes, as JSON. */
  progress: "muster.dev/progress",
  /** On jobs, and on pod templates, which win: with `shared`, members get parts of machines; with `exclusive`, whole machines. */
  sharing: "muster.dev/sharing",
  /** On jobs: a label of nodes; all machines of the gang have the same value of it. */
  topology: "muster.dev/topology",
  /** On jobs: with `false`, the ledger does not preempt the job if its queue permits that. */
  preemptible: "muster.dev/preemptible",
  /** On pods whose machine is taken for other work: when that was announced to them, as RFC 3339. They are deleted immediately afterwards. */
  preemptedAt: "muster.dev/preempted-at",
  /** On nodes that the node scaler has cordoned: why. A cordon without it is another client's, and stays. */
  cordoned: "muster.dev/cordoned",
  /** On pods of replica sets: the sweep keeps the pod even without its set; the value is the reason. */
  kept: "muster.dev/kept",
  /** On pods: W3C traceparent of the work that the pod belongs to. */
  traceparent: "muster.dev/traceparent",
} as const;
