import { once } from "node:events";
import { forEachSome, pause } from "@muster/backoff";
import { runPeriodically } from "@muster/controller";
import { describeFault, findFault, throwFault } from "@muster/faults";
import { sweepOwners, type SweepOptions } from "@muster/ledger-client";
import { withholdRemoval, type SweepBrake, type BrakePolicy } from "@muster/ledger-client/plan-sweep";
import type { LeaseRecords } from "../holdings/records.ts";
import {
  decideCleanupBrake,
  type RecordCount,
  isStaleReservation,
  isNamespace,
  keepOccupied,
  mayBeUsed,
  getObjectPlace,
  planCleanup,
  decideStanding,
  type CleanupPolicy,
  type CleanupSnapshot,
  type CleanupStep,
  type FoundObject,
  type LeaseTruth,
  type FoundObjects,
  type OccupiedKeys,
} from "../domain/plan-cleanup.ts";

/** Objects in the cluster and the ledger that claim to belong to leases. `within` selects one namespace. */
export type Leftovers = {
  find(signal: AbortSignal, within?: string): Promise<FoundObjects>;
  /** Objects that pods use, and namespaces with claims that belong to no lease. */
  inUse(signal: AbortSignal, within?: string): Promise<OccupiedKeys>;
  /** Removes exactly this object, and no later one of the same name. */
  remove(object: FoundObject, signal: AbortSignal): Promise<void>;
};

/** The mode of periodic clean-up: off, report and release machines of ended leases, or remove all leftovers. */
export type CleanupMode = (typeof CLEANUP_MODES)[number];

export const CLEANUP_MODES = ["off", "dry-run", "on"] as const;

type CleanerDeps = {
  readonly leftovers: Leftovers;
  readonly records: Pick<LeaseRecords, "get">;
  readonly nowMs: () => number;
  /** Facts about the stored records, read now. */
  readonly census: () => Promise<RecordCount>;
  readonly policy: CleanupPolicy & BrakePolicy & { readonly mode: CleanupMode; readonly everyMs: number };
  readonly report: {
    step(step: CleanupStep, isDryRun: boolean): void;
    /** Called after each sweep; undefined: no object is held up. */
    brake(brake: SweepBrake | undefined): void;
    /** Called after each sweep with the installation of each object that another installation has created. */
    leftAlone(installations: readonly string[]): void;
    notRemoved: NonNullable<NonNullable<SweepOptions<FoundObject>["report"]>["notRemoved"]>;
    /** A periodic sweep that failed; it is retried. An error that is no fault is a defect. */
    failed(error: unknown): void;
  };
};

/** The outcome of one sweep. */
type Cleanup = { readonly steps: readonly CleanupStep[]; readonly brake: SweepBrake | undefined };

/** CleanupResources: finds leftovers of leases, one sweep at a time. */
export type LeaseCleaner = {
  /**
   * Returns a step for every object. Removes leftovers unless it is a dry run, which also counts as a sweep. Rejects with unavailable while this replica does
   * not lead, or earlier orders are not all known. `confirmed` is the number of objects that may be removed even if records seem to be lost. With
   * `releasesMachines`, even a dry run releases machines of leases whose records state that they are over.
   */
  sweep(
    options: { readonly isDryRun: boolean; readonly confirmed: number; readonly releasesMachines?: boolean },
    signal: AbortSignal,
  ): Promise<Cleanup>;
  /** The missing condition of the first sweep; empty: all are met. Throws unavailable while this replica does not lead. */
  waitsFor(): string;
  /** The brake of the last sweep of this leader. Throws unavailable as `sweep` does. */
  brake(): SweepBrake | undefined;
  /** The mode and time of the next periodic sweep; undefined: never, waiting for earlier orders, or running now. */
  schedule(): { readonly mode: CleanupMode; readonly nextMs: number | undefined };
  /** Sweeps as the leader until the signal: once all orders are known, again after the grace period, and then at the configured interval. */
  run(signal: AbortSignal): Promise<void>;
  /** Records that a source has delivered all orders that it had at the start. */
  historyTaken(): void;
};

const MAX_CONCURRENT_READS = 32;
/** Maximum number of take-overs of one workload that a sweep follows. */
const MAX_HANDOVERS = 1000;
/** Maximum number of defects that the failure of a sweep lists. */
const MAX_DEFECTS = 10;
const RETRY_MS = 1000;

/** State of one leadership: the next leader starts with its own sweeps. */
type CleanerLead = {
  readonly signal: AbortSignal;
  readonly sweeps: Pick<LeaseCleaner, "sweep" | "brake">;
  /** Number of sources whose earlier orders are not all known yet. */
  missing: number;
  readonly known: PromiseWithResolvers<undefined>;
};

/** `sources` is the number of sources that must deliver their earlier orders first. */
export function openCleaner(deps: CleanerDeps, sources: number): LeaseCleaner {
  /** Undefined: this replica does not lead. */
  let leading: CleanerLead | undefined;
  let nextMs: number | undefined;
  let turn: Promise<unknown> = Promise.resolve();

  const requireLead = (): CleanerLead => {
    if (leading === undefined || leading.signal.aborted) return refuse(LEADER);
    return leading;
  };
  const requireHistory = (): CleanerLead => {
    const own = requireLead();
    return own.missing > 0 ? refuse(HISTORY) : own;
  };
  /** A replica that has lost the lead removes no further objects. */
  const sweepAsLeader: LeaseCleaner["sweep"] = async (options, asked) => {
    const own = requireHistory();
    try {
      return await own.sweeps.sweep(options, AbortSignal.any([asked, own.signal]));
    } finally {
      // The caller retries with the next leader, whatever the outcome.
      if (own.signal.aborted) refuse(LEADER);
    }
  };
  const sweep: LeaseCleaner["sweep"] = (options, asked) => {
    requireHistory();
    const mine = turn.then(() => sweepAsLeader(options, asked));
    turn = mine.catch(() => undefined);
    return mine;
  };

  return {
    sweep,
    waitsFor: () => (requireLead().missing > 0 ? HISTORY : ""),
    brake: () => requireHistory().sweeps.brake(),
    schedule: () => ({ mode: deps.policy.mode, nextMs }),
    historyTaken: () => {
      if (leading === undefined) return;
      leading.missing -= 1;
      if (leading.missing === 0) leading.known.resolve(undefined);
    },
    run: async (signal) => {
      leading = { signal, sweeps: startSweeps(deps), missing: sources, known: Promise.withResolvers() };
      if (sources === 0) leading.known.resolve(undefined);
      const ended = signal.aborted ? Promise.resolve() : once(signal, "abort");
      try {
        await Promise.race([leading.known.promise, ended]);
        await sweepPeriodically(deps, sweep, (atMs) => (nextMs = atMs), signal);
        await ended;
      } finally {
        leading = undefined;
        nextMs = undefined;
      }
    },
  };
}

const LEADER = "the leader of the engine";
const HISTORY = "the list of earlier orders";

function refuse(dependency: string): never {
  return throwFault({ code: "unavailable", dependency, retryAfterMs: RETRY_MS });
}

/**
 * Sweeps periodically until the signal. The second sweep, after the grace period, can remove objects. `onSchedule` gets the time of the next sweep; undefined:
 * now.
 */
async function sweepPeriodically(
  { nowMs, policy: { mode, everyMs, graceMs }, report }: CleanerDeps,
  sweep: LeaseCleaner["sweep"],
  onSchedule: (atMs: number | undefined) => void,
  signal: AbortSignal,
): Promise<void> {
  if (mode === "off") return;
  let sweeps = 0;
  let nextInMs = 0;
  await runPeriodically({
    name: "lease-sweep",
    work: async () => {
      onSchedule(undefined);
      nextInMs = Math.min(graceMs, everyMs);
      await sweep({ isDryRun: mode === "dry-run", confirmed: 0, releasesMachines: true }, signal);
      sweeps += 1;
      nextInMs = sweeps % 2 === 1 ? graceMs : everyMs;
    },
    everyMs: () => nextInMs,
    onError: (error) => report.failed(error),
    rest: (ms) => {
      onSchedule(nowMs() + ms);
      return pause(ms, signal);
    },
    stop: signal,
  });
}

/** The sweeps of one leadership, which share the time since when each object is left over. */
function startSweeps({
  leftovers,
  records,
  census,
  nowMs,
  policy,
  report,
}: CleanerDeps): Pick<LeaseCleaner, "sweep" | "brake"> {
  const leftSince = new Map<string, number>();
  let brake: SweepBrake | undefined;
  const truthOf = async (id: string): Promise<LeaseTruth> => {
    try {
      let stored = await records.get(id);
      for (let handovers = 1; stored?.record.heir !== undefined; handovers += 1) {
        // A workload with this many take-overs needs the operator.
        if (handovers > MAX_HANDOVERS)
          return { kind: "unknown", because: `it was taken over more than ${MAX_HANDOVERS} times` };
        stored = await records.get(stored.record.heir);
      }
      return stored === undefined ? { kind: "none" } : { kind: "record", record: stored.record };
    } catch (error) {
      const fault = findFault(error);
      if (fault === undefined) throw error;
      return { kind: "unknown", because: describeFault(fault) };
    }
  };
  const remove = async (step: CleanupStep, signal: AbortSignal): Promise<CleanupStep> => {
    const { object } = step;
    // The observations about the object, its lease and its content may be outdated by now.
    const dependents = await observeDependents(leftovers, object, signal);
    const truth = new Map([[object.lease?.id ?? "", await truthOf(object.lease?.id ?? "")]]);
    const [again] = planCleanup({ ...dependents, truth, leftSince, nowMs: nowMs() }, policy);
    if (again?.kind !== "remove") return again ?? step;
    if (signal.aborted) return withholdRemoval(step, "the sweep was aborted");
    await leftovers.remove(object, signal);
    return step;
  };
  const observe = async (signal: AbortSignal) => {
    const { objects, unlisted } = await leftovers.find(signal);
    const inUse = await leftovers.inUse(signal);
    const ids = [...new Set(objects.flatMap(({ lease }) => lease?.id ?? []))];
    const truth = new Map<string, LeaseTruth>();
    const defects: unknown[] = [];
    await forEachSome(
      ids,
      MAX_CONCURRENT_READS,
      async (id) => truth.set(id, await truthOf(id)),
      (_id, error) => defects.push(error),
    );
    if (defects.length > 0)
      throw new AggregateError(defects.slice(0, MAX_DEFECTS), `reading the records of ${defects.length} leases failed`);
    return { objects, truth, standingOf: decideStanding({ truth, inUse, unlisted }, policy.engine) };
  };
  const sweep: LeaseCleaner["sweep"] = async ({ isDryRun, confirmed, releasesMachines = false }, signal) => {
    const observed = await observe(signal);
    return sweepOwners({
      observe: () => Promise.resolve(observed),
      leftSince,
      graceMs: policy.graceMs,
      nowMs,
      refine: keepOccupied,
      brake: async (steps) => (brake = decideCleanupBrake(steps, observed, await census(), confirmed, policy)),
      isHarmless: (step) => releasesMachines && isStaleReservation(step, observed),
      kindOf: ({ kind }) => kind,
      remove: (step) => remove(step, signal),
      report,
      isDryRun,
    });
  };
  return { sweep, brake: () => brake };
}

/** Observes the object with its content, and the objects that use them. */
async function observeDependents(
  leftovers: Leftovers,
  object: FoundObject,
  signal: AbortSignal,
): Promise<Pick<CleanupSnapshot, "objects" | "unlisted" | "inUse">> {
  if (!mayBeUsed(object)) return { objects: [object], unlisted: [], inUse: undefined };
  const within = getObjectPlace(object);
  const members = isNamespace(object) ? await leftovers.find(signal, within) : { objects: [], unlisted: [] };
  const inUse = await leftovers.inUse(signal, within);
  return { objects: [object, ...members.objects], unlisted: members.unlisted, inUse };
}
