import { forEachSome } from "@muster/backoff";
import { findFault } from "@muster/faults";
import { inSpan } from "@muster/tracing";
import {
  describeBrake,
  listForeign,
  planSweep,
  withholdRemoval,
  type SweepBrake,
  type OwnedObject,
  type OwnerStanding,
  type SweepStep,
} from "./plan-sweep.ts";

export type SweepOptions<Item extends OwnedObject> = {
  /** Lists all objects first and then their owners, so that an owner that is stored before its objects are created is found. */
  readonly observe: () => Promise<{
    readonly objects: readonly Item[];
    readonly standingOf: (object: Item) => OwnerStanding;
  }>;
  /** Times since when objects appear left over, by uid; each sweep updates them. Clear it to restart the grace period. */
  readonly leftSince: Map<string, number>;
  readonly graceMs: number | undefined;
  readonly nowMs: () => number;
  /** Changes steps that depend on other steps. It must not remove an object that is in use. */
  readonly refine?: (steps: readonly SweepStep<Item>[]) => readonly SweepStep<Item>[];
  readonly brake?: (steps: readonly SweepStep<Item>[]) => SweepBrake | undefined | Promise<SweepBrake | undefined>;
  /** Whether the removal loses no data. Neither the brake nor a dry run prevents a harmless removal. */
  readonly isHarmless?: (step: SweepStep<Item>) => boolean;
  /** Returns the kind of an object. Objects of one kind are removed before objects of the next kind in the list. */
  readonly kindOf?: (object: Item) => string;
  /** Removes exactly this object, unless it is no longer left over or still contains one that could not be removed. Returns the outcome. */
  readonly remove: (step: SweepStep<Item>) => Promise<SweepStep<Item>>;
  readonly report?: {
    /** Called for each step except `keep`. */
    step?(step: SweepStep<Item>, isDryRun: boolean): void;
    brake?(brake: SweepBrake | undefined): void;
    /** Called with the installation of each object that another installation made. */
    leftAlone?(installations: readonly string[]): void;
    /** The removals that failed, the first ten of them; `more` failed beside these. */
    notRemoved?(failures: readonly SweepFailure<Item>[], more: number): void;
  };
  readonly isDryRun?: boolean;
};

export type SweepFailure<Item> = { readonly object: Item; readonly error: unknown };

type Swept<Item> = { readonly steps: readonly SweepStep<Item>[]; readonly brake: SweepBrake | undefined };

/** Limits concurrent removals. A removal may check its object again first. */
const MAX_CONCURRENT_REMOVALS = 8;
const MAX_FAILURES_REPORTED = 10;

/** Reports the first ten failures, and the number of `more`: one cause often fails all. */
export function reportFirstFailure<Failure>(
  failures: readonly Failure[],
  report: (first: readonly Failure[], more: number) => void,
): void {
  const first = failures.slice(0, MAX_FAILURES_REPORTED);
  report(first, failures.length - first.length);
}

/**
 * Runs one sweep, which removes leftovers of owners. Tries all removals, reports those that failed, and rejects with the first defect among their errors, or
 * with the first fault. The next sweep retries them.
 */
export async function sweepOwners<Item extends OwnedObject>(options: SweepOptions<Item>): Promise<Swept<Item>> {
  const { leftSince, graceMs, nowMs, report, isDryRun = false } = options;
  const { objects, standingOf } = await options.observe();
  const planned = planSweep(objects, standingOf, { leftSince, nowMs: nowMs(), graceMs });
  const steps = options.refine?.(planned) ?? planned;
  const brake = await options.brake?.(steps);
  report?.brake?.(brake);
  report?.leftAlone?.(listForeign(objects, standingOf));
  remember(leftSince, steps, nowMs());
  const take = async (step: SweepStep<Item>): Promise<SweepStep<Item>> => {
    const isHarmless = options.isHarmless?.(step) === true;
    const isBraked = brake !== undefined && step.kind === "remove" && !isHarmless;
    const allowed = isBraked ? withholdRemoval(step, `nothing is removed: ${describeBrake(brake)}`) : step;
    const isOnlyReported = isDryRun && !isHarmless;
    const taken = allowed.kind !== "remove" || isOnlyReported ? allowed : await removeInSpan(options, allowed);
    if (taken.kind !== "keep") report?.step?.(taken, isOnlyReported);
    return taken;
  };
  const done: SweepStep<Item>[] = [];
  const failures: SweepFailure<Item>[] = [];
  for (const alike of Map.groupBy(steps, ({ object }) => options.kindOf?.(object)).values())
    done.push(...(await takeAll(alike, take, failures)));
  if (failures.length > 0) {
    reportFirstFailure(failures, (first, more) => report?.notRemoved?.(first, more));
    const [worst] = [...failures.filter(({ error }) => findFault(error) === undefined), ...failures];
    throw worst?.error;
  }
  return { steps: done, brake };
}

function removeInSpan<Item extends OwnedObject>(
  { remove }: Pick<SweepOptions<Item>, "remove">,
  step: SweepStep<Item>,
): Promise<SweepStep<Item>> {
  const attributes = { "muster.uid": step.object.uid, "muster.because": step.because };
  return inSpan("ledger-client", "remove leftover", { attributes }, () => remove(step));
}

function remember<Item extends OwnedObject>(
  leftSince: Map<string, number>,
  steps: readonly SweepStep<Item>[],
  nowMs: number,
): void {
  const left = new Set(steps.flatMap((step) => (step.kind === "keep" ? [] : step.object.uid)));
  for (const uid of leftSince.keys()) if (!left.has(uid)) leftSince.delete(uid);
  for (const uid of left) if (!leftSince.has(uid)) leftSince.set(uid, nowMs);
}

async function takeAll<Item>(
  steps: readonly SweepStep<Item>[],
  take: (step: SweepStep<Item>) => Promise<SweepStep<Item>>,
  failures: SweepFailure<Item>[],
): Promise<SweepStep<Item>[]> {
  const taken = new Map<SweepStep<Item>, SweepStep<Item>>();
  const one = async (step: SweepStep<Item>): Promise<unknown> => taken.set(step, await take(step));
  await forEachSome(steps, MAX_CONCURRENT_REMOVALS, one, ({ object }, error) => failures.push({ object, error }));
  return steps.map((step) => taken.get(step) ?? step);
}

/** Logs each of the first failures for `notRemoved`, and one line for the rest. */
export function logNotRemoved<Item extends OwnedObject>(
  logger: { warn(about: object, message: string): void },
  what: string,
): (failures: readonly SweepFailure<Item>[], more: number) => void {
  return (failures, more) => {
    for (const { object, error } of failures)
      logger.warn({ what, uid: object.uid, err: error }, "a leftover could not be removed");
    if (more > 0) logger.warn({ what, more }, "more leftovers could not be removed");
  };
}
