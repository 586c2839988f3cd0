import { formatElapsed } from "@muster/faults";
import type { UnreadableSet } from "../adapters/farm-messages.ts";
import type { UnreadableLease } from "../adapters/lease-messages.ts";
import type { KindsTrouble, WatcherStatus } from "../adapters/muster-services.ts";
import type { Pool } from "../adapters/reservation-messages.ts";
import { buildTable, escapeControls, type TableStyle } from "./build-table.ts";
import { buildGrowthChecks, isElastic, type SeenScaler } from "./build-growth-checks.ts";
import { buildQueueChecks, type SeenQueues } from "./build-queue-checks.ts";
import { buildLeaseChecks, buildUnreadableLeaseChecks, type SeenEngine } from "./build-lease-checks.ts";
import {
  buildFailedCheck,
  listFailedRecords,
  buildPassedCheck,
  buildWarningCheck,
  type Check,
  type ObservedValue,
} from "./check.ts";
import { listSome } from "./list-some.ts";
import { getColour } from "./paint.ts";
import { getAppOfArea, LEADER_ONLY } from "./describe-trouble.ts";
import { formatCount } from "./plural.ts";
import { describeConnection, type Connection } from "./decide-connection.ts";
import type { Work } from "./work.ts";

export type NatsObservation = {
  readonly version: string;
  readonly roundTripMs: number;
  /** Why JetStream cannot be used; undefined if it can. */
  readonly jetStreamTrouble: string | undefined;
  /** The number of messages that no service could handle; undefined if the stream does not exist yet. */
  readonly deadLetters: number | undefined;
  /** The number of records by area, for services that keep records in NATS. */
  readonly records: Readonly<Partial<Record<string, number>>>;
};

export type ServiceReplica = { readonly name: string; readonly id: string; readonly version: string };

/** Counts signals that a replica has lost since it started, because it was too slow. */
export type DroppedSignals = {
  readonly service: string;
  readonly id: string;
  readonly subject: string;
  readonly dropped: number;
};

export type Observations = {
  readonly connection: Pick<Connection, "natsUrl" | "because" | "hint">;
  readonly nats: ObservedValue<NatsObservation>;
  readonly replicas: ObservedValue<readonly ServiceReplica[]>;
  readonly watcher: ObservedValue<WatcherStatus>;
  readonly pools: ObservedValue<readonly Pool[]>;
  /** The value is `trouble` if the ledger does not answer, or has a version without queues. */
  readonly queues: SeenQueues["queues"];
  readonly reservations: SeenQueues["reservations"];
  /** Jobs that have machines, or wait for them. */
  readonly jobReservations: ObservedValue<number>;
  /** The memory of the node scaler's leader. */
  readonly scaler: ObservedValue<SeenScaler>;
  readonly dropped: ObservedValue<readonly DroppedSignals[]>;
  /** Kinds of job that were uninstalled; `trouble` if no job controller answers. */
  readonly kinds: ObservedValue<KindsTrouble>;
  /** Sets whose records the farms cannot read; `trouble` if no farm answers. */
  readonly unreadableSets: ObservedValue<readonly UnreadableSet[]>;
  /** The value is `trouble` if no engine answers. */
  readonly leases: ObservedValue<readonly SeenEngine[]>;
  readonly unreadableLeases: ObservedValue<readonly UnreadableLease[]>;
  readonly jobs: ObservedValue<readonly Pick<Work, "kind" | "name" | "events" | "waitingBecause">[]>;
};

const SCALER = "node-scaler";

const NEEDED = { neededFor: "everything", one: "" };
/** The services by area of the bus. An app that only one purpose needs is optional. */
const SERVICES = [
  { area: "session", ...NEEDED },
  { area: "reservation", ...NEEDED },
  { area: "watch", ...NEEDED },
  { area: "job", neededFor: "jobs", one: "job" },
  { area: "farm", neededFor: "replica sets", one: "replica set" },
  { area: "provision", neededFor: "leases", one: "lease" },
  { area: "node", neededFor: "pools that may grow", one: "pool" },
].map((service) => ({ ...service, app: getAppOfArea(service.area) }));

/** The API server sends a bookmark every minute; a watcher that received nothing for this long is stale. */
const MAX_WATCHER_AGE_MS = 150_000;
/** The maximum number of slow consumers in a message. */
const MAX_SLOW = 3;
/** The maximum number of pools with over-committed machines in a message. */
const MAX_POOLS = 3;
/** The maximum number of jobs that can never start in a message. */
const MAX_JOBS = 3;
/** The ledger's codes for waits that time alone does not end. */
const NEVER: ReadonlySet<string | undefined> = new Set([
  ...["POOL_CAPACITY", "POOL_UNKNOWN", "LIMIT_EXCEEDED", "QUOTA_EXCEEDED"],
]);
const LOGS = "see its log (of `npm start` in .muster/logs, of compose by `docker compose logs`)";

/** Returns one line for each check, and omits a check that an earlier failure makes impossible. */
export function buildChecks(seen: Observations, nowMs: number): Check[] {
  const { connection } = seen;
  const where = describeConnection(connection);
  if ("trouble" in seen.nats) return [checkUnreachable(connection, seen.nats.trouble)];
  const nats = seen.nats.value;
  return [
    buildPassedCheck("nats", `${where}: version ${nats.version}, answers in ${nats.roundTripMs.toFixed(1)} ms`),
    nats.jetStreamTrouble === undefined
      ? buildPassedCheck("jetstream", "on")
      : buildFailedCheck(
          "jetstream",
          nats.jetStreamTrouble,
          "start the NATS server with JetStream (`jetstream` in its configuration)",
        ),
    ...checkServices(seen, nats),
    ...checkKinds(seen.kinds),
    ...checkNamespaces(seen.kinds),
    ...checkJobRights(seen.kinds),
    ...checkServed(seen.kinds),
    checkWatcher(seen.watcher),
    checkPools(seen.pools),
    ...checkOvercommitted(seen.pools),
    ...buildGrowthChecks(seen, nowMs),
    ...buildQueueChecks(seen),
    ...checkJobs(seen.jobs),
    ...checkSets(seen.unreadableSets),
    ...buildLeaseChecks(seen.leases, nowMs),
    ...buildUnreadableLeaseChecks(seen.unreadableLeases),
    checkDropped(seen.dropped),
    checkDeadLetters(nats.deadLetters),
  ];
}

/** Builds the only check for an unreachable server. */
export function checkUnreachable({ hint }: Observations["connection"], trouble: string): Check {
  return buildFailedCheck("nats", trouble, hint);
}

export function isHealthy(checks: readonly Check[]): boolean {
  return checks.every(({ status }) => status !== "failed");
}

export function buildDoctorTable(checks: readonly Check[], style: TableStyle): string[] {
  const rows = checks.map(({ check, status, detail }) => [{ text: status, colour: getColour(status) }, check, detail]);
  const advice = checks.filter(({ next }) => next !== "").map(({ check, next }) => `${check}: ${next}`);
  return [
    ...buildTable(["STATUS", "CHECK", "DETAIL"], rows, style),
    ...(advice.length === 0 ? [] : ["", "What to do next:", ...advice.map((line) => `  ${line}`)]),
  ];
}

function checkServices({ replicas, pools, jobReservations }: Observations, { records }: NatsObservation): Check[] {
  if ("trouble" in replicas) return [buildFailedCheck("services", replicas.trouble, "run `muster doctor` again")];
  const elastic = "value" in pools ? pools.value.filter(isElastic).map(({ name }) => name) : [];
  const waiting: NatsObservation["records"] = {
    ...records,
    ...("value" in jobReservations ? { job: jobReservations.value } : {}),
  };
  return SERVICES.map(({ area, app, neededFor, one }) => {
    const found = replicas.value.filter(({ name }) => name === area);
    const versions = [...new Set(found.map(({ version }) => version))].sort();
    if (found.length === 0 && app === SCALER && elastic.length > 0)
      return buildWarningCheck(
        app,
        `no replica answers: no service creates nodes for ${elastic.join(", ")}`,
        `start ${app}, or ${LOGS}`,
      );
    const orphans = waiting[area] ?? 0;
    if (found.length === 0 && neededFor !== "everything" && orphans > 0)
      return buildWarningCheck(
        app,
        `no replica answers: nothing manages ${formatCount(orphans, one)}`,
        `start ${app}, or ${LOGS}`,
      );
    if (found.length === 0 && neededFor !== "everything")
      return buildPassedCheck(app, `not running; it is needed for ${neededFor} alone`);
    if (found.length === 0) return buildFailedCheck(app, "no replica answers", `start ${app}, or ${LOGS}`);
    const who = LEADER_ONLY.has(app)
      ? "its leader answers (standby replicas do not)"
      : formatCount(found.length, "replica");
    const detail = `${who}, version ${versions.join(" and ")}`;
    return versions.length === 1
      ? buildPassedCheck(app, detail)
      : buildWarningCheck(app, detail, "finish the update: replicas differ in version");
  });
}

/** If the job controller does not answer, the check of the services reports it. */
function checkKinds(kinds: Observations["kinds"]): Check[] {
  if ("trouble" in kinds) return [];
  const { gone, refused } = kinds.value;
  const troubles = [
    {
      of: gone,
      why: "was installed, and is missing now",
      next: "install its CustomResourceDefinition again, or, where it is no longer needed, restart job-controller",
    },
    {
      of: refused,
      why: "may not be read by job-controller",
      next: "give its service account the rights that its README lists",
    },
  ];
  return troubles
    .filter(({ of }) => of.length > 0)
    .map(({ of, why, next }) =>
      buildWarningCheck("kinds of job", `${of.join(", ")} ${why}: such jobs are not run`, next),
    );
}

function checkNamespaces(kinds: Observations["kinds"]): Check[] {
  if ("trouble" in kinds || kinds.value.namespace === "") return [];
  const { namespace, elsewhere } = kinds.value;
  const { mayHaveQueue } = elsewhere;
  const served = `jobs of the namespace ${namespace}${mayHaveQueue ? " and of namespaces with a queue" : ""} are run`;
  const inOwn = `delete each, and create it in ${namespace}: \`muster run FILE\`, or \`kubectl create -n ${namespace} -f FILE\``;
  const check = "namespaces";
  if (elsewhere.isRefused)
    return [
      buildPassedCheck(
        check,
        `${served}; job-controller has no right to list those of others (rights.otherNamespaces)`,
      ),
    ];
  if (elsewhere.jobs.length === 0) return [buildPassedCheck(check, `${served}; others have none`)];
  const listed = listSome(elsewhere.jobs, MAX_JOBS, ",");
  return [
    buildWarningCheck(
      check,
      `${served}, and no controller runs ${listed}${elsewhere.isMore ? ", among others" : ""}`,
      mayHaveQueue ? `select the namespace in spec.namespaceSelector of a queue, or ${inOwn}` : inOwn,
    ),
  ];
}

function checkJobRights(kinds: Observations["kinds"]): Check[] {
  if ("trouble" in kinds || kinds.value.rightsMissing.length === 0) return [];
  const listed = kinds.value.rightsMissing.join(", ");
  return [
    buildWarningCheck(
      "rights of job-controller",
      `it has no right to read ${listed}: work that needs them is not queued`,
      "set rights.batchJobs of the chart, or apply deploy/kubernetes/job-controller.yaml, and for JOB_BATCH_JOBS deploy/kubernetes/batch-jobs.yaml",
    ),
  ];
}

function checkServed(kinds: Observations["kinds"]): Check[] {
  if ("trouble" in kinds || !kinds.value.isUnserved) return [];
  const { namespace } = kinds.value;
  return [
    buildWarningCheck(
      "namespaces without a queue",
      `queues exist, and none serves the namespace ${namespace}: its jobs wait with QUEUE_UNKNOWN`,
      `select ${namespace} in spec.namespaceSelector of a queue without queues below it; \`muster queues\` lists them`,
    ),
  ];
}

function checkWatcher(watcher: Observations["watcher"]): Check {
  const name = "watcher's view";
  if ("trouble" in watcher) return buildFailedCheck(name, watcher.trouble, `start watcher, or ${LOGS}`);
  const { ageMs, synced, pods, nodes } = watcher.value;
  const detail = `${formatCount(pods, "pod")} and ${formatCount(nodes, "node")}, last update from Kubernetes ${formatElapsed(ageMs)} ago`;
  if (!synced) return buildFailedCheck(name, `${detail}; the first list is not complete`, `wait a moment, or ${LOGS}`);
  if (ageMs > MAX_WATCHER_AGE_MS)
    return buildFailedCheck(name, detail, "check that the watcher reaches the Kubernetes API");
  return buildPassedCheck(name, detail);
}

function checkPools(pools: Observations["pools"]): Check {
  if ("trouble" in pools) return buildFailedCheck("pools", pools.trouble, `start reservation-manager, or ${LOGS}`);
  const text = pools.value.map(describePool).join(", ");
  const empty = pools.value.filter((pool) => pool.capacity === 0 && !isElastic(pool)).map(({ name }) => name);
  if (pools.value.length === 0)
    return buildFailedCheck(
      "pools",
      "no pool exists",
      "label nodes with their pool: `kubectl label node NODE pool=NAME`",
    );
  if (empty.length > 0)
    return buildWarningCheck(
      "pools",
      `${text} free`,
      `no usable machine in ${empty.join(", ")}: \`muster pools\` shows why, \`kubectl get nodes\` shows them`,
    );
  return buildPassedCheck("pools", `${text} free`);
}

/** Foreign pods that started after a grant end no work, but slow it down. */
function checkOvercommitted(pools: Observations["pools"]): Check[] {
  if ("trouble" in pools) return [];
  const over = pools.value.filter(({ overcommitted }) => overcommitted > 0);
  if (over.length === 0) return [];
  const texts = over.map(({ name, overcommitted, overcommittedNodes: nodes }) => {
    const more = overcommitted - nodes.length;
    return `${formatCount(overcommitted, "machine")} of ${name} (${nodes.join(", ")}${more > 0 ? ` and ${more} more` : ""})`;
  });
  return [
    buildWarningCheck(
      "over-committed machines",
      listSome(texts, MAX_POOLS, ";"),
      "move their foreign pods to other nodes: `muster nodes` names them",
    ),
  ];
}

function describePool(pool: Pool): string {
  const { name, available, capacity, elasticMax } = pool;
  return `${name} ${available}/${capacity}${isElastic(pool) ? ` (up to ${elasticMax})` : ""}`;
}

/** Reports jobs whose pool can never have their machines: such a job waits without an error. */
function checkJobs(jobs: Observations["jobs"]): Check[] {
  if ("trouble" in jobs) return [];
  const stuck = jobs.value.filter(({ events }) => NEVER.has(events.at(-1)?.reason));
  if (stuck.length === 0) return [];
  const lines = stuck.map(({ kind, name, waitingBecause }) => `${kind}/${name}: ${escapeControls(waitingBecause)}`);
  return [
    buildWarningCheck(
      "jobs that cannot start",
      listSome(lines, MAX_JOBS, ";"),
      "cancel each and submit it with smaller requests, or enlarge its pool or its queue",
    ),
  ];
}

/** If no farm answers, the check of the services reports it. */
function checkSets(unreadable: Observations["unreadableSets"]): Check[] {
  if ("trouble" in unreadable) return [];
  return listFailedRecords(
    "replica sets",
    unreadable.value.map(({ name, because }) => [name, because]),
    "the farm does not change these sets; `muster delete NAME --force` deletes one with its pods, `muster apply` then recreates it",
  );
}

/** Lost signals only delay work, because signals are hints; a service that loses many cannot keep up. */
function checkDropped(dropped: Observations["dropped"]): Check {
  const name = "slow consumers";
  if ("trouble" in dropped) return buildWarningCheck(name, dropped.trouble, "run `muster doctor` again");
  if (dropped.value.length === 0) return buildPassedCheck(name, "none");
  const most = [...dropped.value].sort((a, b) => b.dropped - a.dropped);
  const texts = most.map(
    ({ service, subject, dropped: count }) =>
      `${getAppOfArea(service)} lost ${formatCount(count, "signal")} of ${subject}`,
  );
  const apps = [...new Set(most.map(({ service }) => getAppOfArea(service)))].join(", ");
  return buildWarningCheck(
    name,
    `${listSome(texts, MAX_SLOW, ",")}, counted since its start`,
    `a lost signal only delays work; give ${apps} more CPU or more replicas until the count stops growing`,
  );
}

function checkDeadLetters(count: number | undefined): Check {
  if (count === undefined || count === 0) return buildPassedCheck("dead letters", "none");
  return buildWarningCheck(
    "dead letters",
    `${formatCount(count, "message")} could not be handled`,
    "`muster dead-letters list` shows them and why; `replay` sends them again, `drop` removes them",
  );
}
