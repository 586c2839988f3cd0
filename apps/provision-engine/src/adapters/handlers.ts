import { describeBrake, type SweepBrake } from "@muster/ledger-client/plan-sweep";
import { computePageLimit, type Handlers } from "@muster/bus";
import { throwFault } from "@muster/faults";
import { toNanosecondsFromMs, toTimestamp, type Order } from "@muster/leases";
import { toEnd, toOrder, toRenewal } from "@muster/leases/wire";
import { muster, type LeaseService, type PropertiesOf } from "@muster/proto";
import type { View } from "@muster/store";
import type { EngineCapacity } from "../domain/claim.ts";
import { type LeaseRecord, SOURCES } from "../domain/lease.ts";
import { recordBytes } from "../domain/decide-quota.ts";
import type { CleanupStep } from "../domain/plan-cleanup.ts";
import type { LeaseCleaner } from "../lead/cleaner.ts";
import { countTicks } from "./count-ticks.ts";
import type { LeaseRegistry } from "../holdings/lease-registry.ts";
import { type StoredLease, type LeaseHistory, type StoredValue, listUnreadableLeases } from "../holdings/records.ts";
import { endLease, renewLease, requireLease, takeOrder, type RequestDeps } from "../orders/requests.ts";
import { explainAnswer, toWireLease, type LeaseExplainCalls } from "./lease-message.ts";
import { readHistoryPage } from "./history.ts";
import { PAGE_BYTES, toWirePhase, toWireEvent } from "./messages.ts";

export type HandlerDeps = RequestDeps & {
  readonly view: Pick<View<StoredValue>, "entries" | "get" | "onChange">;
  readonly holdings: RequestDeps["holdings"] & Pick<LeaseRegistry, "around" | "counters" | "find" | "phases">;
  readonly history: Pick<LeaseHistory, "page">;
  readonly capacity: EngineCapacity;
  /** Why an order would FAIL immediately; empty: no reason is known. */
  readonly foresee: (record: LeaseRecord, before: readonly Order[], signal: AbortSignal) => Promise<string>;
  /** The calls to other services for an explanation. */
  readonly asking: LeaseExplainCalls;
  readonly cleaner: Pick<LeaseCleaner, "sweep" | "brake" | "schedule" | "waitsFor">;
  /** Number of the oldest ongoing leases with secrets that the key cannot open. */
  readonly unopened: () => number;
  /** The public key of the results' signatures, in base58. */
  readonly key: string;
};

const MAX_PAGE = 500;
const MAX_BEFORE = 100;
const MAX_UNREADABLE = 100;
/** Interval of a stream of counters. */
export const COUNT_EVERY_MS = 2000;
const ANY_PHASE: number = muster.provision.v1.LeasePhase.LEASE_PHASE_UNSPECIFIED;

/** The methods of LeaseService, which every replica answers. */
export function makeHandlers(deps: HandlerDeps): Handlers<typeof LeaseService> {
  const nowMs = (): number => Number(deps.nowNs() / 1_000_000n);
  const counts = countTicks(COUNT_EVERY_MS, nowMs);
  const lease = async (stored: Promise<StoredLease>) => ({ lease: toWireLease(deps, await stored) });
  return {
    orderLease: async ({ requestId, order, dryRun, before, skipForesight }, { signal }) => {
      const read = readOrder(order ?? missing("order"));
      if (before.length > MAX_BEFORE) refuse("before", `has more than ${MAX_BEFORE} orders`);
      const ordered = await takeOrder(deps, { order: read, requestId, source: SOURCES.service, dryRun });
      if ("fault" in ordered) return throwFault(ordered.fault);
      const { stored, outcome } = ordered;
      const isForeseen = dryRun && !skipForesight;
      const refusedBecause = isForeseen ? await deps.foresee(stored.record, before.map(readOrder), signal) : "";
      return { lease: toWireLease(deps, stored), outcome, refusedBecause };
    },
    renewLease: ({ requestId, renewal }) =>
      lease(renewLease(deps, requestId, toRenewal(renewal ?? missing("renewal")))),
    endLease: ({ requestId, end: request }) => lease(endLease(deps, requestId, toEnd(request ?? missing("end")))),
    getLease: ({ id }) => lease(requireLease(deps, id)),
    explainLease: async ({ id }) => {
      const { record } = await requireLease(deps, id);
      return { explanation: await explainAnswer(deps, deps.asking, record) };
    },
    listLeases: (request) => Promise.resolve(leasesPage(deps, request)),
    listLeaseHistory: async (query, { signal }) => {
      const page = await readHistoryPage(deps, query, signal);
      return { ...page, events: page.events.map(toWireEvent) };
    },
    getEngine: ({ engine }) => {
      const own = ownEngine(deps, engine);
      return Promise.resolve({ engine: own, key: deps.key, now: toTimestamp(deps.nowNs()) });
    },
    getCounters: async ({ engine, afterNumber }, { signal }) => {
      ownEngine(deps, engine);
      const isCounted = afterNumber < Math.floor(nowMs() / COUNT_EVERY_MS);
      if (!isCounted) await counts.next(signal);
      return toWireCounters(deps);
    },
    cleanupResources: async ({ dryRun, confirm }, { signal }) => {
      const { steps, brake } = await deps.cleaner.sweep({ isDryRun: dryRun, confirmed: confirm }, signal);
      const of = (what: CleanupStep["kind"]): CleanupStep[] => steps.filter((step) => step.kind === what);
      const [removed, suspected] = [of("remove"), of("suspect")];
      return {
        steps: [...removed, ...suspected].slice(0, MAX_PAGE).map(toWireStep),
        found: steps.length,
        removed: removed.length,
        suspected: suspected.length,
        heldBecause: formatBrake(brake),
        ...toWireSchedule(deps.cleaner.schedule()),
      };
    },
    getCleanup: () => {
      const waitsFor = deps.cleaner.waitsFor();
      const brake = waitsFor === "" ? deps.cleaner.brake() : undefined;
      const held = { heldBecause: formatBrake(brake), held: brake?.left ?? 0 };
      return Promise.resolve({ waitsFor, ...held, ...toWireSchedule(deps.cleaner.schedule()) });
    },
  };
}

/** A page of leases ordered by id, limited by the request and by the maximum message size. */
function leasesPage(
  deps: HandlerDeps,
  { limit, continue: after, user, type, phase }: muster.provision.v1.ListLeasesRequest,
): PropertiesOf<typeof muster.provision.v1.ListLeasesReply> {
  const size = computePageLimit(limit, MAX_PAGE);
  const wanted: number = phase;
  const page: StoredLease[] = [];
  let bytes = 0;
  let isMore = false;
  for (const { key, value, revision } of deps.view.entries()) {
    if (key <= after || !("record" in value)) continue;
    const { record } = value;
    if (user !== "" && record.order.user !== user) continue;
    if (type !== "" && record.order.type !== type) continue;
    const own: number = toWirePhase(record);
    if (wanted !== ANY_PHASE && own !== wanted) continue;
    const weight = recordBytes(record);
    isMore = page.length === size || (page.length > 0 && bytes + weight > PAGE_BYTES);
    if (isMore) break;
    page.push({ record, revision });
    bytes += weight;
  }
  return {
    leases: page.map((each) => toWireLease(deps, each)),
    continue: isMore ? (page.at(-1)?.record.order.id ?? "") : "",
    unreadable: after === "" ? listUnreadableLeases(deps.view).slice(0, MAX_UNREADABLE) : [],
  };
}

/** The id of this engine; throws not_found if the request names another one. */
function ownEngine({ policy }: HandlerDeps, named: string): string {
  if (named !== "" && named !== policy.engine) return throwFault({ code: "not_found", kind: "engine", id: named });
  return policy.engine;
}

function toWireSchedule({ mode, nextMs }: ReturnType<LeaseCleaner["schedule"]>) {
  return { mode, nextLook: nextMs === undefined ? null : toTimestamp(toNanosecondsFromMs(nextMs)) };
}

function toWireStep({
  kind: what,
  object,
  because,
}: CleanupStep): PropertiesOf<typeof muster.provision.v1.CleanupStep> {
  const { kind, namespace, name, lease: of } = object;
  return { action: what === "remove" ? "REMOVED" : "SUSPECTED", kind, namespace, name, lease: of?.id ?? "", because };
}

export function toWireCounters({
  holdings,
  capacity,
  policy,
  nowNs,
  unopened,
}: Pick<HandlerDeps, "holdings" | "capacity" | "policy" | "nowNs" | "unopened">): PropertiesOf<
  typeof muster.provision.v1.GetCountersReply
> {
  const { counters, used } = holdings.counters();
  const isLimited = Object.keys(capacity).length > 0;
  return {
    engine: policy.engine,
    counters,
    used: toWireUnits(used),
    overdue: holdings.phases(nowNs()).overdue,
    unopened: unopened(),
    capacity: isLimited ? toWireUnits(capacity) : undefined,
    number: Math.floor(Number(nowNs() / 1_000_000n) / COUNT_EVERY_MS),
  };
}

/** Throws FaultError invalid_request if the data are not text. */
function readOrder(message: muster.provision.v1.Order): Order {
  try {
    return toOrder(message);
  } catch {
    return refuse("order.data", "is not UTF-8 text");
  }
}

function toWireUnits(units: EngineCapacity): muster.provision.v1.ResourceUnits {
  const { cru, mru, hru, sru } = units;
  return { cru: wireUnit(cru), mruBytes: wireUnit(mru), hruBytes: wireUnit(hru), sruBytes: wireUnit(sru) };
}

function wireUnit(amount: bigint | undefined): number | undefined {
  return amount === undefined ? undefined : Number(amount);
}

function missing(field: string): never {
  return refuse(field, "is missing");
}

function refuse(field: string, reason: string): never {
  return throwFault({ code: "invalid_request", field, reason });
}

/** Describes the brake of clean-up; empty if no object is held. */
function formatBrake(brake: SweepBrake | undefined): string {
  return brake === undefined ? "" : describeBrake(brake);
}
