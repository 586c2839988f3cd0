import { createHash, randomUUID } from "node:crypto";
import { makeClient, type NatsBus } from "@muster/bus";
import { findFault, logLevelOf } from "@muster/faults";
import { makeKubeCalls, loadServiceKube } from "@muster/kube";
import { annotations, buckets, labels, ReservationService, schedulingGates, streams } from "@muster/proto";
import { reportForeignObjects, type Logger, type ServiceContext } from "@muster/service";
import { readInstallationId, type Session } from "@muster/store";
import type { Config } from "../config.ts";
import { buildPod, type PodPolicy } from "../domain/build-pod.ts";
import { decideFailsafe } from "../domain/decide-failsafe.ts";
import type { ReplicaSet } from "../domain/replica-set.ts";
import { makeFarm, type Farm } from "../farm.ts";
import { getUrgency } from "../pass-trouble.ts";
import type { PassDeps } from "../pass-deps.ts";
import type { RequestDeps } from "../request-deps.ts";
import { openAlerts, type SetAlert, type SetAlerts } from "./alerts.ts";
import { openAuditLog } from "./audit-log.ts";
import { followForeignPods } from "./foreign-pods.ts";
import { rolloutCodec, setCodec } from "./messages.ts";
import { startMetrics, type FarmMetrics, type FarmGauges } from "./metrics.ts";
import { openPoolScheduler } from "./pool-scheduler.ts";
import { openSetQueues } from "./set-queues.ts";
import { makePods, type CreateOutcome, type FarmPods } from "./pods.ts";
import { makeRecords, openRecords } from "./records.ts";
import { openWorld, type World } from "./views.ts";

export type Deps = AsyncDisposable & {
  readonly farm: Farm;
  readonly requests: RequestDeps;
  /** The view that is too old; undefined when all are fresh. */
  readonly staleness: () => string | undefined;
};

const KUBE_TIMEOUT_MS = 10_000;
const MAX_CALLS_IN_FLIGHT = 32;

/** Opens the dependencies of the service; only this function knows their implementations. */
export async function openDeps(context: ServiceContext<Config>, bus: NatsBus): Promise<Deps> {
  const { config, logger, signal } = context;
  const { connection } = bus;
  for (const stream of [streams.events, streams.audit]) await bus.ensureStream(stream);
  const installation = await readInstallationId(connection);
  await using undo = new AsyncDisposableStack();
  const kube = loadServiceKube(context, config.kube.kubeconfig);
  const calls = undo.use(makeKubeCalls(kube, { timeoutMs: KUBE_TIMEOUT_MS, maxInFlight: MAX_CALLS_IN_FLIGHT }));
  const sets = await openRecords(connection, buckets.replicaSets, setCodec);
  const rollouts = await openRecords(connection, buckets.rolls, rolloutCodec);
  const { resyncMs, sweepMs } = config;
  const onProblem = (what: string, error: unknown, retryInMs: number): void =>
    logger.warn({ err: error, what, retryInMs }, "a watch is interrupted, and is retried");
  const now = steadyNow;
  const freshness = { nodesFreshMs: config.nodesFreshMs, nodeGraceMs: config.policy.nodeGraceMs, wallNow: Date.now };
  const { namespace } = config.kube;
  const foreign = undo.use(followForeignPods(kube, namespace, (error, inMs) => onProblem("pods", error, inMs)));
  const world = undo.use(await openWorld({ connection, sets, rollouts, foreign, ...freshness, now, onProblem }));
  const ledgerFailed = (error: unknown, retryInMs: number): void => onProblem("the ledger", error, retryInMs);
  const ledger = { bus, calls: makeClient(bus, ReservationService), refreshMs: resyncMs, onProblem: ledgerFailed };
  const scheduler = undo.use(await openPoolScheduler(ledger));
  const ofQueues = { connection, calls, namespace, signal, changed: scheduler.notify, onProblem };
  const queues = undo.use(await openSetQueues(ofQueues));
  const metrics = undo.use(startMetrics(buildGauges(world, () => farm.owned())));
  const alerts = undo.use(openAlerts({ bus, logger, webhook: config.webhook, counted: metrics.alerted, now }));
  undo.defer(alertUnreadable(world, alerts));
  const policy: PodPolicy = { namespace, installation, keys: { labels, annotations, schedulingGates } };
  const pods = makePods(calls, namespace, installation);
  const auditLog = openAuditLog(bus);
  const pass: PassDeps = {
    now,
    newId: randomUUID,
    sets: makeRecords(sets),
    rollouts: makeRecords(rollouts),
    world,
    auditLog,
    pods: podsOfSets(pods, policy),
    scheduler,
    queueOf: queues.choose,
    templateHash,
    failsafe: watchFailsafe(world, alerts, logger),
    policy: config.policy,
    unhealthyMs: config.unhealthyMs,
    force: { nodeLostMs: config.nodeLostMs },
    alerts,
    report: passReports(context, metrics),
  };
  const reportForeign = reportForeignObjects(logger, { what: "replica-set", own: installation });
  const farm = makeFarm({ pass, world, pods, scheduler, logger, resyncMs, sweepMs, reportForeign });
  let session: Session | undefined;
  const run: Farm["run"] = (live) => {
    session = live;
    return farm.run(live);
  };
  const opened = undo.move();
  return {
    farm: { ...farm, run },
    requests: {
      ...pass,
      world,
      auditLog,
      transferMs: config.policy.transferMs,
      check: (set) => pods.check(buildPod(set, { node: "any", ordinal: set.nextOrdinal }, policy)),
      pools: scheduler.pools,
      farmOf: (set) => findOwner(session, set),
    },
    staleness: world.staleness,
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  };
}

/** Returns the owner of the set; empty while this farm has no session. */
function findOwner(session: Session | undefined, set: string): string {
  const { sessions, locks } = session?.view() ?? {};
  return sessions?.get(locks?.get(set)?.session ?? "")?.holder ?? "";
}

/** Milliseconds since 1970 that never jump while the process lives: setting the clock must not end transfers. */
function steadyNow(): number {
  return Math.round(performance.timeOrigin + performance.now());
}

function templateHash({ spec }: ReplicaSet): string {
  return createHash("sha256").update(spec.template).digest("hex").slice(0, 16);
}

function podsOfSets(pods: FarmPods, policy: PodPolicy): PassDeps["pods"] {
  return {
    ...pods,
    create: (set, place) => create(pods, policy, set, place),
    list: async ({ name, uid }) => (await pods.list(name)).filter(({ setUid }) => setUid === uid),
  };
}

async function create(
  pods: FarmPods,
  policy: PodPolicy,
  set: ReplicaSet,
  place: { readonly node: string; readonly ordinal: number },
): Promise<CreateOutcome> {
  try {
    return await pods.create(buildPod(set, place, policy));
  } catch (error) {
    const fault = findFault(error);
    if (fault?.code !== "invalid_request") throw error;
    return { kind: "refused", message: `${fault.field}: ${fault.reason}` };
  }
}

/** True from the start until some set wants replicas. It never becomes true again, because sets without replicas are intended then. */
function watchFailsafe(world: World, alerts: SetAlerts, logger: Pick<Logger, "info">): () => boolean {
  let lifted = false;
  let isLogged = false;
  return () => {
    if (lifted) return false;
    const sets = world.sets().flatMap(({ read }) => ("record" in read ? [read.record] : []));
    const rollouts = world.rollouts().flatMap(({ read }) => ("record" in read ? [read.record] : []));
    const verdict = decideFailsafe(sets, rollouts);
    if (verdict === undefined) {
      lifted = true;
      alerts.resolve("no-sets");
      alerts.resolve("no-replicas");
      return false;
    }
    if (verdict === "no-sets") {
      // A new installation has no sets. The sweep raises an alert if pods show that their records are lost.
      if (!isLogged) logger.info({}, "no replica set exists: this farm removes nothing until one does");
      isLogged = true;
      return true;
    }
    alerts.raise({
      incidentKey: verdict,
      description: "no replica set wants any replica: this farm removes nothing until one does",
      urgency: "HIGH",
      details: { sets: sets.length },
      replicaSet: "",
    });
    return true;
  };
}

function buildGauges(world: World, owned: () => number): FarmGauges {
  const troubles = () => world.sets().map(({ read }) => ("record" in read ? read.record.trouble : undefined));
  return {
    owned,
    unreadable: () => [...world.sets(), ...world.rollouts()].filter(({ read }) => "unreadable" in read).length,
    troubled: (urgency) =>
      troubles().filter((trouble) => trouble !== undefined && getUrgency(trouble.code) === urgency).length,
  };
}

/** Raises alerts for unreadable records, which stay unchanged. Returns the function that stops the alerts. */
function alertUnreadable(world: World, alerts: SetAlerts): () => void {
  const unreadable = new Map<string, SetAlert>();
  const update = (kind: "set" | "roll", name: string): void => {
    const read = (kind === "set" ? world.set(name) : world.rollout(name))?.read;
    const incidentKey = `unreadable_${kind}_${name}`
      .toLowerCase()
      .replaceAll(/[^a-z0-9_-]/g, "-")
      .slice(0, 128);
    if (read === undefined || "record" in read) {
      if (unreadable.delete(incidentKey)) alerts.resolve(incidentKey);
      return;
    }
    const description = `the record of ${kind} ${name} cannot be read, and its pods and machines stay unchanged: ${read.unreadable}`;
    unreadable.set(incidentKey, {
      incidentKey,
      description,
      urgency: "HIGH",
      details: { kind, name },
      replicaSet: name,
    });
  };
  const raise = (): void => {
    for (const alert of unreadable.values()) alerts.raise(alert);
  };
  for (const { name } of world.sets()) update("set", name);
  for (const { id } of world.rollouts()) update("roll", id);
  raise();
  return world.onChange((change) => {
    if (change.kind !== "set" && change.kind !== "rollout") return;
    update(change.kind === "set" ? "set" : "roll", change.name);
    raise();
  });
}

function passReports({ logger }: ServiceContext<Config>, metrics: FarmMetrics): PassDeps["report"] {
  return {
    planned: (set, what, because) => {
      metrics.planned(what, because);
      const level = what === "wait" || what === "roll-wait" ? "debug" : "info";
      logger[level]({ set, do: what, because }, "planned");
    },
    failed: (set, what, error) => {
      metrics.failed(what);
      logger[logLevelOf(error)]({ set, do: what, err: error }, "a step failed, and is retried");
    },
  };
}
