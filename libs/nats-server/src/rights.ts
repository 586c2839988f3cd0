import {
  AuditService,
  bucketKeys,
  buckets,
  FarmService,
  JobService,
  LeaseService,
  buildLeaseService,
  NodeService,
  ReservationService,
  type ServiceDescriptor,
  services,
  SessionService,
  streams,
  subjects,
  WatchService,
} from "@muster/proto";

/** The rights that one user of NATS needs. Everything else is forbidden. */
export type NatsRights = {
  /** Services whose requests the user answers. */
  readonly serves?: readonly ServiceDescriptor[];
  /** Subjects of the requests that the user sends. */
  readonly asks?: readonly string[];
  /** Buckets that only this user writes. */
  readonly owns?: readonly string[];
  readonly reads?: readonly string[];
  /** Keys that the user writes in the bucket of locks, which all users read. */
  readonly locks?: readonly string[];
  /** Keys in the bucket of the installation that the user reads, and creates if missing. */
  readonly marks?: readonly string[];
  /** Events and commands that the user sends. */
  readonly publishes?: readonly string[];
  /** Signals and events to which the user subscribes without a durable consumer. */
  readonly listens?: readonly string[];
  /** The user discovers all replicas of all services. */
  readonly discovers?: true;
  /** Streams that the user creates and configures. */
  readonly keeps?: readonly string[];
  /** Streams whose messages the user reads by sequence. */
  readonly inspects?: readonly string[];
  /** Buckets whose size the user may read; no other right. */
  readonly counts?: readonly string[];
  readonly consumes?: readonly { readonly stream: string; readonly durable: string }[];
  /** The log that only this user writes. */
  readonly log?: { readonly name: string; readonly subjects: readonly string[] };
  /** Streams from which an operator may remove messages. Also permits reading the state of servers and services. */
  readonly oversees?: readonly string[];
  /** Streams that the user reads completely, and recreates from such a copy if they are missing. */
  readonly copies?: readonly string[];
};

const { anyReservationGranted, anyReservationReleased, anyReservationPreempted } = subjects;
const ANY_GRANT = [anyReservationGranted, anyReservationReleased, anyReservationPreempted];
/** The subject for any key, where `subjects` spells it for one. */
const ANY = {
  alert: subjects.farmAlerted("x"),
  setAudit: subjects.farmAudited("x"),
};

/** Values of PROVISION_ENGINE_ID. NATS has no wildcard for a part of a token, so each value is listed. */
const ENGINE_IDS = ["main"];
const LEASE_SERVICES = [LeaseService, ...ENGINE_IDS.map((id) => buildLeaseService(id))];

/** One user for each service, `cli` for users of the command line, and `backup` for `muster backup` and `muster restore`. */
export const rights = {
  watcher: {
    serves: [WatchService],
    owns: [buckets.pods, buckets.nodes],
  },
  "reservation-manager": {
    serves: [ReservationService],
    owns: [buckets.snapshots, buckets.locks],
    reads: [buckets.nodes, buckets.pools, buckets.queues],
    log: streams.ledger,
    publishes: ANY_GRANT,
    keeps: [streams.events.name],
  },
  "session-controller": {
    serves: [SessionService],
    asks: [
      ...requests(
        ReservationService,
        "reserve",
        "checkReservation",
        "unreserve",
        "getReservation",
        "explainReservation",
        "listReservations",
        "limitConcurrency",
      ),
      ...requests(NodeService, "explainDemand"),
      // Pods of jobs that no longer exist may keep machines that a session waits for.
      ...requests(JobService, "listJobs"),
    ],
    owns: [buckets.sessions, buckets.sessionLogs],
    reads: [buckets.nodes, buckets.pods, buckets.queues],
    locks: ["session-controller"],
    marks: [bucketKeys.installationId],
    publishes: [subjects.anySessionEventRecorded],
    listens: [anyReservationGranted],
    keeps: [streams.events.name],
  },
  "job-controller": {
    serves: [JobService],
    asks: [
      ...requests(
        ReservationService,
        "reserve",
        "checkReservation",
        "unreserve",
        "acceptPreemption",
        "requeue",
        "getReservation",
        "explainReservation",
        "listReservations",
        "listPools",
        "listQueues",
      ),
      ...requests(NodeService, "explainDemand"),
    ],
    owns: [buckets.queues],
    reads: [buckets.nodes],
    locks: ["job-controller"],
    marks: [bucketKeys.installationId],
    listens: ANY_GRANT,
  },
  "replication-farm": {
    serves: [FarmService],
    asks: requests(ReservationService, "reserve", "unreserve", "getReservation", "listReservations", "listPools"),
    owns: [buckets.replicaSets, buckets.rolls, buckets.farmLocks],
    reads: [buckets.nodes, buckets.pods, buckets.queues],
    marks: [bucketKeys.installationId],
    publishes: [anyKey(ANY.alert), anyKey(ANY.setAudit)],
    listens: ANY_GRANT,
    keeps: [streams.events.name, streams.audit.name],
    inspects: [streams.audit.name],
  },
  "provision-engine": {
    serves: LEASE_SERVICES,
    // Another engine answers for the leases of its id.
    asks: [
      ...requests(
        ReservationService,
        "reserve",
        "checkReservation",
        "unreserve",
        "getReservation",
        "explainReservation",
        "listReservations",
        "listMachines",
        "listQueues",
      ),
      // Explains why a lease waits for machines: booting nodes, and pods of deleted jobs that keep machines.
      ...requests(NodeService, "explainDemand"),
      ...requests(JobService, "listJobs"),
      ...ENGINE_IDS.flatMap((id) => listRequests(buildLeaseService(id))),
    ],
    owns: [buckets.leases],
    listens: [anyReservationGranted],
    locks: ENGINE_IDS.map((id) => `provision-engine.${id}`),
    marks: [bucketKeys.installationId],
    publishes: [subjects.anyLeaseAnswered, subjects.anyLeaseAudited, subjects.dead("lease")],
    keeps: [streams.events.name, streams.audit.name, streams.leaseOrders.name, streams.dead.name],
    inspects: [streams.audit.name],
    consumes: ENGINE_IDS.map((id) => ({ stream: streams.leaseOrders.name, durable: `lease-orders-${id}` })),
  },
  "node-scaler": {
    serves: [NodeService],
    asks: requests(ReservationService, "listDemand", "listMachines"),
    owns: [buckets.scaledNodes, buckets.pools],
    reads: [buckets.nodes],
    locks: ["node-scaler"],
  },
  gateway: {
    serves: [AuditService],
    // The methods of libs/gateway-api/src/resources.ts.
    asks: [
      ...requests(
        SessionService,
        "listSessions",
        "getSession",
        "explainSession",
        "getLogs",
        "checkSession",
        "submitSession",
        "cancelSession",
        "deleteSession",
        "watchSession",
      ),
      ...requests(
        JobService,
        "listJobs",
        "getJob",
        "explainJob",
        "listJobEvents",
        "getJobLogs",
        "submitJob",
        "checkJob",
        "cancelJob",
        "suspendJob",
        "watchJob",
      ),
      ...requests(
        FarmService,
        "listReplicaSets",
        "getReplicaSet",
        "explainReplicaSet",
        "listAudit",
        "applyReplicaSet",
        "scaleReplicaSet",
        "enableReplicaSet",
        "transferNode",
        "holdTransfers",
        "deleteReplicaSet",
        "listRolls",
        "getRoll",
        "createRoll",
        "changeRoll",
      ),
      ...requests(
        LeaseService,
        "listLeases",
        "getLease",
        "explainLease",
        "listLeaseHistory",
        "orderLease",
        "renewLease",
        "endLease",
        "getEngine",
      ),
      ...requests(
        ReservationService,
        "listPools",
        "listReservations",
        "getReservation",
        "explainReservation",
        "listQueues",
        "listUsage",
        "listMachines",
      ),
      ...requests(NodeService, "listNodes", "terminateNode", "explainDemand"),
      ...requests(AuditService, "listChanges", "listVersions"),
    ],
    owns: [buckets.apiRequests],
    publishes: [subjects.anyChangeAudited, subjects.anyChangeRefused],
    discovers: true,
    keeps: [streams.apiAudit.name, streams.apiRefusals.name],
    inspects: [streams.apiAudit.name, streams.apiRefusals.name],
  },
  cli: {
    asks: services.flatMap((service) => listRequests(service)),
    // A replayed dead letter goes to its original subject.
    publishes: [...streams.leaseOrders.subjects],
    listens: [subjects.anySessionEventRecorded],
    inspects: [streams.dead.name, streams.leaseOrders.name],
    // Counts of records, which show whether a client needs a service that does not run.
    counts: [buckets.replicaSets, buckets.leases],
    oversees: [streams.dead.name],
  },
  backup: {
    copies: [...Object.values(streams).map(({ name }) => name), ...Object.values(buckets).map((name) => `KV_${name}`)],
  },
} as const satisfies Readonly<Record<string, NatsRights>>;

export type NatsUserName = keyof typeof rights;

/** The subjects of these methods. */
function requests<Service extends ServiceDescriptor>(
  { area, methods }: Service,
  ...names: readonly (keyof Service["methods"] & string)[]
): readonly string[] {
  return names.map((name) => subjects.request(area, methods[name]?.verb ?? ""));
}

export function listRequests({ area, methods }: ServiceDescriptor): readonly string[] {
  return Object.values(methods).map(({ verb }) => subjects.request(area, verb));
}

/** Replaces `x` in the subject by a wildcard. */
function anyKey(subject: string): string {
  return subject
    .split(".")
    .map((token) => (token === "x" ? "*" : token))
    .join(".");
}
