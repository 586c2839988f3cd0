import { forEachSome, pause } from "@muster/backoff";
import { throwFault } from "@muster/faults";
import { sweepOwners } from "@muster/ledger-client";
import type { Brake, BrakePolicy } from "@muster/ledger-client/plan-sweep";
import type { Records } from "./records.ts";
import { decideBrake, type Census } from "../domain/decide-brake.ts";
import {
  isStaleReservation,
  isNamespace,
  keepOccupied,
  mayBeUsed,
  placeOf,
  planCleanup,
  standingOf,
  type CleanupPolicy,
  type CleanupSnapshot,
  type CleanupStep,
  type FoundObject,
  type LeaseTruth,
  type Found,
  type InUse,
} from "../domain/plan-cleanup.ts";
import { ended } from "./ended.ts";

/** What says that it is made for leases, by whomever, in a cluster or in the ledger. `within`: only what lives in this namespace. */
export type Leftovers = {
  find(signal: AbortSignal, within?: string): Promise<Found>;
  /** What pods use, and namespaces with claims that are no lease's. */
  inUse(signal: AbortSignal, within?: string): Promise<InUse>;
  /** Removes this very object, and no later one of its name. */
  remove(object: FoundObject, signal: AbortSignal): Promise<void>;
};

/** What clean-up does by itself: nothing, tell what it would remove, and give back the machines of leases that are over, or remove it all. */
export type CleanupMode = (typeof CLEANUP_MODES)[number];

export const CLEANUP_MODES = ["off", "dry-run", "on"] as const;

export type CleanerDeps = {
  readonly leftovers: Leftovers;
  readonly records: Pick<Records, "get">;
  readonly nowMs: () => number;
  /** Of the records, as they are stored now. */
  readonly census: () => Promise<Census>;
  readonly policy: CleanupPolicy & BrakePolicy & { readonly mode: CleanupMode; readonly everyMs: number };
  readonly report: {
    step(step: CleanupStep, isDryRun: boolean): void;
    /** After each look; undefined: nothing is held up. */
    brake(brake: Brake | undefined): void;
    /** After each look, the installation of each object that another one has made. */
    leftAlone(installations: readonly string[]): void;
    failed(error: unknown): void;
  };
};

/** What came of one look. */
export type Cleanup = { readonly steps: readonly CleanupStep[]; readonly brake: Brake | undefined };

/** CleanupResources: looks for what leases have left behind, one look after the other. */
export type Cleaner = {
  /**
   * Steps for all that was found; removes what may go, unless it is a dry run, which counts as a look too. Rejects with unavailable while this replica does not lead, or all
   * that was ordered before is not known yet. `confirmed`: so many objects may go even if that looks as if records were lost. `releasesMachines`: also in a dry run machines go
   * that are held for leases whose records say that they are over.
   */
  sweep(
    options: { readonly isDryRun: boolean; readonly confirmed: number; readonly releasesMachines?: boolean },
    signal: AbortSignal,
  ): Promise<Cleanup>;
  /** What has to come before the first look; empty: nothing. Throws unavailable while this replica does not lead. */
  waitsFor(): string;
  /** What the last look of this replica, while it leads, was held up by. Throws unavailable as `look` does. */
  brake(): Brake | undefined;
  /** What is done without being asked, and when next; undefined: never, not before all is known, or now. */
  schedule(): { readonly mode: CleanupMode; readonly nextMs: number | undefined };
  /** Looks once all is known, again after the grace, and so each day, until the signal: this replica leads. */
  run(signal: AbortSignal): Promise<void>;
  /** A source has brought all that it had at the start. */
  historyTaken(): void;
};

const MAX_CONCURRENT_READS = 32;
/** Leases that may have had a workload, one after the other. */
const MAX_HANDOVERS = 1000;
const RETRY_MS = 1000;

/** What one leadership knows: the next leader looks, too, and remembers what it has seen by itself. */
type Leadership = {
  readonly signal: AbortSignal;
  readonly sweeps: Pick<Cleaner, "sweep" | "brake">;
  /** Sources that have not brought their history yet. */
  missing: number;
  readonly known: PromiseWithResolvers<undefined>;
};

/** `sources`: how many have to have brought their history first. */
export function openCleaner(deps: CleanerDeps, sources: number): Cleaner {
  /** Undefined: this replica does not lead. */
  let leading: Leadership | undefined;
  let nextMs: number | undefined;
  let turn: Promise<unknown> = Promise.resolve();

  const requireLead = (): Leadership => {
    if (leading === undefined || leading.signal.aborted) return refuse(LEADER);
    return leading;
  };
  const requireHistory = (): Leadership => {
    const own = requireLead();
    return own.missing > 0 ? refuse(HISTORY) : own;
  };
  /** Whoever has lost the lead removes nothing any more. */
  const sweepAsLeader: Cleaner["sweep"] = async (options, asked) => {
    const own = requireHistory();
    try {
      return await own.sweeps.sweep(options, AbortSignal.any([asked, own.signal]));
    } finally {
      // Whatever came of it, its caller asks the next leader.
      if (own.signal.aborted) refuse(LEADER);
    }
  };
  const sweep: Cleaner["sweep"] = (options, asked) => {
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
      try {
        await Promise.race([leading.known.promise, ended(signal)]);
        await sweepPeriodically(deps, sweep, (atMs) => (nextMs = atMs), signal);
        await ended(signal);
      } finally {
        leading = undefined;
        nextMs = undefined;
      }
    },
  };
}

const LEADER = "the leader of the engine";
const HISTORY = "what was ordered before";

function refuse(dependency: string): never {
  return throwFault({ code: "unavailable", dependency, retryAfterMs: RETRY_MS });
}

/** Looks without being asked, until the signal. The second look, after the grace, is what removes. `next`: told when that is; undefined: it is now. */
async function sweepPeriodically(
  { nowMs, policy: { mode, everyMs, graceMs }, report }: CleanerDeps,
  sweep: Cleaner["sweep"],
  onSchedule: (atMs: number | undefined) => void,
  signal: AbortSignal,
): Promise<void> {
  for (let sweeps = 0; mode !== "off" && !signal.aborted; sweeps += 1) {
    onSchedule(undefined);
    const options = { isDryRun: mode === "dry-run", confirmed: 0, releasesMachines: true };
    await sweep(options, signal).catch((error: unknown) => signal.aborted || report.failed(error));
    const pauseMs = sweeps % 2 === 0 ? graceMs : everyMs;
    onSchedule(nowMs() + pauseMs);
    await pause(pauseMs, signal);
  }
}

/** The looks of one leadership, each of which remembers what looked left over at the one before. */
function startSweeps({
  leftovers,
  records,
  census,
  nowMs,
  policy,
  report,
}: CleanerDeps): Pick<Cleaner, "sweep" | "brake"> {
  const leftSince = new Map<string, number>();
  let brake: Brake | undefined;
  const truthOf = async (id: string): Promise<LeaseTruth> => {
    try {
      let stored = await records.get(id);
      for (let handovers = 1; stored?.record.heir !== undefined; handovers += 1) {
        // What has changed hands so often is left to people.
        if (handovers > MAX_HANDOVERS)
          return { kind: "unknown", because: `it was taken over ${MAX_HANDOVERS} times and more` };
        stored = await records.get(stored.record.heir);
      }
      return stored === undefined ? { kind: "none" } : { kind: "record", record: stored.record };
    } catch (error) {
      return { kind: "unknown", because: error instanceof Error ? error.message : String(error) };
    }
  };
  const remove = async (step: CleanupStep, signal: AbortSignal): Promise<CleanupStep> => {
    const { object } = step;
    // What is believed of it, of its lease and of what is in it may be some time old by now.
    const dependents = await observeDependents(leftovers, object, signal);
    const truth = new Map([[object.lease?.id ?? "", await truthOf(object.lease?.id ?? "")]]);
    const [again] = planCleanup({ ...dependents, truth, leftSince, nowMs: nowMs() }, policy);
    if (again?.do !== "remove") return again ?? step;
    if (signal.aborted) return { do: "suspect", object, because: `${step.because}, but the look was ended` };
    await leftovers.remove(object, signal);
    return step;
  };
  const observe = async (signal: AbortSignal) => {
    const { objects, unlisted } = await leftovers.find(signal);
    const inUse = await leftovers.inUse(signal);
    const ids = [...new Set(objects.flatMap(({ lease }) => lease?.id ?? []))];
    const truth = new Map<string, LeaseTruth>();
    await forEachSome(
      ids,
      MAX_CONCURRENT_READS,
      async (id) => truth.set(id, await truthOf(id)),
      (_id, error) => report.failed(error),
    );
    return { objects, truth, standingOf: standingOf({ truth, inUse, unlisted }, policy.engine) };
  };
  const sweep: Cleaner["sweep"] = async ({ isDryRun, confirmed, releasesMachines = false }, signal) => {
    const observed = await observe(signal);
    return sweepOwners({
      observe: () => Promise.resolve(observed),
      leftSince,
      graceMs: policy.graceMs,
      nowMs,
      refine: keepOccupied,
      brake: async (steps) => (brake = decideBrake(steps, observed, await census(), confirmed, policy)),
      isHarmless: (step) => releasesMachines && isStaleReservation(step, observed),
      kindOf: ({ kind }) => kind,
      remove: (step) => remove(step, signal),
      report,
      isDryRun,
    });
  };
  return { sweep, brake: () => brake };
}

/** The object with all that lives in it, and what uses them. */
async function observeDependents(
  leftovers: Leftovers,
  object: FoundObject,
  signal: AbortSignal,
): Promise<Pick<CleanupSnapshot, "objects" | "unlisted" | "inUse">> {
  if (!mayBeUsed(object)) return { objects: [object], unlisted: [], inUse: undefined };
  const within = placeOf(object);
  const members = isNamespace(object) ? await leftovers.find(signal, within) : { objects: [], unlisted: [] };
  const inUse = await leftovers.inUse(signal, within);
  return { objects: [object, ...members.objects], unlisted: members.unlisted, inUse };
}
