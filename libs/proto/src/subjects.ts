import { throwFault } from "@muster/faults";

const TOKEN = /^[a-z0-9_-]{1,128}$/;
/** The id of a NATS service has capitals. */
const REPLICA = /^[A-Za-z0-9_-]{1,128}$/;

/** The only file in the repository where subjects, streams and buckets are spelled. */
export const subjects = {
  /** muster.req.<area>.<verb> */
  request: (area: string, verb: string) => `muster.req.${token(area)}.${token(verb)}`,
  /** muster.req.<area>.<verb>.<replica>: the same request, for one replica alone, named by its id as a NATS service. */
  requestOfReplica: (request: string, replica: string) => `${request}.${token(replica, REPLICA)}`,
  /** muster.req.<area>.<verb>.* */
  requestOfAnyReplica: (request: string) => `${request}.*`,
  /** $SRV.PING.<area>: every replica of the service that is alive answers with its id. */
  ping: (area: string) => `$SRV.PING.${token(area)}`,
  /** muster.cancel.<area>: the caller of a request gave up; the call's id is in a header. */
  cancel: (area: string) => `muster.cancel.${token(area)}`,
  /** muster.evt.reservation.<owner kind>_<owner id>.granted */
  reservationGranted: (ownerKind: string, ownerId: string) =>
    `muster.evt.reservation.${token(`${ownerKind}_${ownerId}`)}.granted`,
  /** muster.evt.reservation.*.granted */
  anyReservationGranted: "muster.evt.reservation.*.granted",
  /** muster.evt.reservation.<owner kind>_<owner id>.released */
  reservationReleased: (ownerKind: string, ownerId: string) =>
    `muster.evt.reservation.${token(`${ownerKind}_${ownerId}`)}.released`,
  /** muster.evt.reservation.*.released */
  anyReservationReleased: "muster.evt.reservation.*.released",
  /** muster.evt.reservation.<owner kind>_<owner id>.preempted */
  reservationPreempted: (ownerKind: string, ownerId: string) =>
    `muster.evt.reservation.${token(`${ownerKind}_${ownerId}`)}.preempted`,
  /** muster.evt.reservation.*.preempted */
  anyReservationPreempted: "muster.evt.reservation.*.preempted",
  /** muster.evt.session.<session>.recorded */
  sessionEventRecorded: (session: string) => `muster.evt.session.${token(session)}.recorded`,
  /** muster.evt.session.*.recorded */
  anySessionEventRecorded: "muster.evt.session.*.recorded",
  /** muster.evt.farm.<incident>.alerted */
  farmAlerted: (incident: string) => `muster.evt.farm.${token(incident)}.alerted`,
  /** muster.audit.farm.<replica set>: the changes of a replica set. */
  farmAudited: (replicaSet: string) => `muster.audit.farm.${token(replicaSet)}`,
  /** muster.cmd.lease.<engine>.<lease>.order: one order of a lease waits at a time. */
  orderLease: (engine: string, lease: string) => `muster.cmd.lease.${token(engine)}.${token(lease)}.order`,
  /** muster.cmd.lease.<engine>.*.order */
  ordersOfEngine: (engine: string) => `muster.cmd.lease.${token(engine)}.*.order`,
  /** muster.evt.lease.<lease>.answered */
  leaseAnswered: (lease: string) => `muster.evt.lease.${token(lease)}.answered`,
  /** muster.evt.lease.*.answered */
  anyLeaseAnswered: "muster.evt.lease.*.answered",
  /** muster.audit.lease.<lease>: what happened to a lease. */
  leaseAudited: (lease: string) => `muster.audit.lease.${token(lease)}`,
  /** muster.audit.lease.* */
  anyLeaseAudited: "muster.audit.lease.*",
  /** muster.api.<resource>.<user>.<attempt>.changed: a user, named by a digest, has asked a service for a change over HTTP. */
  changeAudited: (resource: string, user: string, attempt: string) =>
    `muster.api.${token(resource)}.${token(user)}.${token(attempt)}.changed`,
  /** muster.api.*.*.*.changed */
  anyChangeAudited: "muster.api.*.*.*.changed",
  /** muster.api.<resource>.<user>.refused: the gateway refused a change over HTTP. */
  changeRefused: (resource: string, user: string) => `muster.api.${token(resource)}.${token(user)}.refused`,
  /** muster.api.*.*.refused */
  anyChangeRefused: "muster.api.*.*.refused",
  /** _INBOX.<service>: answers to the requests of this service arrive below it. */
  inbox: (service: string) => `_INBOX.${token(service)}`,
  /** muster.dead.<area>: payload and fault of what could not be handled. */
  dead: (area: string) => `muster.dead.${token(area)}`,
} as const;

/** Streams, each with the subjects it binds. Events are kept by limits, commands until they are acknowledged. */
export const streams = {
  events: { name: "MUSTER_EVENTS", subjects: ["muster.evt.>"], retention: "limits" },
  leaseOrders: {
    name: "MUSTER_LEASE_ORDERS",
    subjects: ["muster.cmd.lease.*.*.order"],
    retention: "workqueue",
    // A thousand of the largest. Those for a missing engine are not consumed, and a later consumer refuses them for their age.
    maxBytes: 64 * 1024 * 1024,
    maxAgeMs: 7 * 24 * 3_600_000,
  },
  /** The log of the ledger, which `openLog` of libs/store makes and keeps. */
  ledger: { name: "MUSTER_LEDGER", subjects: ["muster.log.reservation"] },
  audit: {
    name: "MUSTER_AUDIT",
    subjects: ["muster.audit.>"],
    retention: "limits",
    // Kept for a quarter for investigations; beyond either limit the oldest are dropped.
    maxAgeMs: 90 * 24 * 3_600_000,
    maxBytes: 256 * 1024 * 1024,
  },
  /** Who has changed what over HTTP: not in `audit`, whose records the services own and read back. */
  apiAudit: {
    name: "MUSTER_API_CHANGES",
    subjects: ["muster.api.*.*.*.changed"],
    retention: "limits",
    // The outcome of a change replaces its announcement.
    maxMessagesPerSubject: 1,
    maxAgeMs: 90 * 24 * 3_600_000,
    maxBytes: 256 * 1024 * 1024,
  },
  /** Refusals of the gateway, apart from `apiAudit`: however many there are, they remove no change. */
  apiRefusals: {
    name: "MUSTER_API_REFUSALS",
    subjects: ["muster.api.*.*.refused"],
    retention: "limits",
    maxAgeMs: 30 * 24 * 3_600_000,
    maxBytes: 32 * 1024 * 1024,
  },
  dead: {
    name: "MUSTER_DEAD",
    subjects: ["muster.dead.>"],
    retention: "limits",
    // Kept for a month for investigations; beyond either limit the oldest are dropped.
    maxAgeMs: 30 * 24 * 3_600_000,
    maxBytes: 64 * 1024 * 1024,
  },
} as const;

/** Key-value buckets. */
export const buckets = {
  /** <owner kind>.<owner id>.<pod> -> watch.v1.PodState, of the pods of Muster's one namespace; written by the watcher. */
  pods: "muster-pods",
  /** <node> -> watch.v1.NodeState, and the mark `bucketKeys.nodesComplete`; written by the watcher. */
  nodes: "muster-nodes",
  /** <session> -> session.v1.SessionRecord; written by the session controller. */
  sessions: "muster-sessions",
  /** <session>.<pod>.<container>.<chunk> -> log text; written by the session controller. */
  sessionLogs: "muster-session-logs",
  /** <lock> -> holder and fencing token; written by every participant of an election. */
  locks: "muster-locks",
  /** <node> -> node.v1.NodeRecord; written by the node scaler. */
  scaledNodes: "muster-scaled-nodes",
  /** <pool> -> node.v1.PoolScaling, of the pools that are scaled; written by the node scaler. */
  pools: "muster-pools",
  /** <queue> -> reservation.v1.Queue, as its custom resource states it; written by the job-controller. */
  queues: "muster-queues",
  /** <replica set> -> farm.v1.ReplicaSetRecord; written by the replication farm. */
  replicaSets: "muster-replica-sets",
  /** <roll> -> farm.v1.RollRecord; written by the replication farm. */
  rolls: "muster-rolls",
  /** <lease> -> provision.v1.LeaseRecord; written by the provision engine. */
  leases: "muster-leases",
  /** Sessions of farms, and which session owns which replica set; written by every farm. */
  farmLocks: "muster-farm-locks",
  /** <log> -> snapshot of an event-sourced log; written by the log's writer. */
  snapshots: "muster-snapshots",
  /** <digest of a user and an idempotency key> -> the request and its answer, as JSON; written by the gateway. */
  apiRequests: "muster-api-requests",
  /** `bucketKeys.installationId` -> id of the installation, as text; written once, by the first service. */
  installation: "muster-installation",
} as const;

/** Fixed keys of a bucket, beside those of its objects. */
export const bucketKeys = {
  /**
   * In `buckets.nodes` -> watch.v1.NodesComplete, which says what it promises. No node can have this name. A reader of the whole bucket, with the codec of
   * NodeState, meets it as a state without a name: it has to leave it out.
   */
  nodesComplete: "_complete",
  /** The one key of `buckets.installation`. */
  installationId: "id",
} as const;

/** Keys enter subjects only as one token, so that a pool called `a.b` or `*` cannot become a wildcard. */
function token(value: string, form = TOKEN): string {
  if (form.test(value)) return value;
  return throwFault({ code: "invalid_request", field: "subject", reason: `"${value}" cannot be a part of a subject` });
}
