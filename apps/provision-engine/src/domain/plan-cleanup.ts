import {
  planSweep,
  type OwnedObject,
  type OwnerStanding,
  type SweepStep,
  decideSweepBrake,
  type SweepBrake,
  type BrakePolicy,
} from "@muster/ledger-client/plan-sweep";
import { getOrigin, type LeaseRecord, type LeaseOrigin } from "./lease.ts";

/** An object in the cluster, or a reservation in the ledger, that claims to belong to a lease. */
export type FoundObject = OwnedObject & {
  readonly kind: string;
  /** Empty for objects outside of namespaces. */
  readonly namespace: string;
  readonly name: string;
  /** Undefined: the time is unknown. */
  readonly createdMs: number | undefined;
  /** The lease in the labels of the object; undefined if the labels are not those of a lease. */
  readonly lease: { readonly id: string; readonly run: number } | undefined;
  /** The object is already being deleted. */
  readonly isTerminating: boolean;
};

export type FoundObjects = {
  readonly objects: readonly FoundObject[];
  /** Kinds that could not be listed, so that `objects` may be incomplete. */
  readonly unlisted: readonly string[];
};

/** The record of a lease; after a take-over, the record of the lease that now owns the workload. Unknown: the record could not be read. */
export type LeaseTruth =
  | { readonly kind: "record"; readonly record: Pick<LeaseRecord, "order" | "phase" | "run" | "takesOver" | "madeFor"> }
  | { readonly kind: "none" }
  | { readonly kind: "unknown"; readonly because: string };

/** Volume claims and namespaces that are in use. Undefined: unknown. */
export type OccupiedKeys = ReadonlySet<string> | undefined;

export type CleanupSnapshot = FoundObjects & {
  readonly truth: ReadonlyMap<string, LeaseTruth>;
  /** Keys of `buildUseKey`. */
  readonly inUse: OccupiedKeys;
  /** Since when every sweep has found the object left over, by uid. */
  readonly leftSince: ReadonlyMap<string, number>;
  readonly nowMs: number;
};

export type CleanupPolicy = {
  /** Id of the engine that runs the sweep. */
  readonly engine: string;
  /** An object is removed only if it is left over for this long, and in at least two sweeps. */
  readonly graceMs: number;
};

export type CleanupStep = SweepStep<FoundObject>;

const VOLUME_CLAIM = "PersistentVolumeClaim";
const NAMESPACE = "Namespace";
/** Kind of machines held in the ledger. */
export const RESERVATION = "Reservation";

export function isNamespace({ kind }: FoundObject): boolean {
  return kind === NAMESPACE;
}

/** Whether the use of such an object must be known before it is removed. */
export function mayBeUsed(object: FoundObject): boolean {
  return object.kind === VOLUME_CLAIM || isNamespace(object);
}

/** Name of the object's namespace; for a namespace, its own name. */
export function getObjectPlace(object: FoundObject): string {
  return isNamespace(object) ? object.name : object.namespace;
}

export function buildUseKey(kind: string, namespace: string, name: string): string {
  return `${kind} ${namespace}/${name}`;
}

/**
 * Whether a step is always safe. A safe step releases machines in the ledger that are held for a lease whose record exists and no longer needs them. These
 * machines are released even in a dry run.
 */
export function isStaleReservation(
  { kind: what, object }: CleanupStep,
  { truth }: Pick<CleanupSnapshot, "truth">,
): boolean {
  return what === "remove" && object.kind === RESERVATION && truth.get(object.lease?.id ?? "")?.kind === "record";
}

/**
 * Plans one step for each object that claims to belong to a lease. In doubt an object stays: its record cannot be read, it is in use or its use is unknown, or
 * the grace period since it was first found left over is not over.
 */
export function planCleanup(snapshot: CleanupSnapshot, { engine, graceMs }: CleanupPolicy): CleanupStep[] {
  const { objects, leftSince, nowMs } = snapshot;
  return keepOccupied(planSweep(objects, decideStanding(snapshot, engine), { leftSince, nowMs, graceMs }));
}

/** A namespace is removed after all lease objects in it. */
export function keepOccupied(steps: readonly CleanupStep[]): CleanupStep[] {
  const staying = new Set(steps.filter((step) => step.kind !== "remove").map(({ object }) => object.namespace));
  return steps.map((step) =>
    step.kind === "remove" && isNamespace(step.object) && staying.has(step.object.name)
      ? { ...step, kind: "suspect", because: "it still contains objects of a lease" }
      : step,
  );
}

/** Returns the function that decides whether an object is left over, by the snapshot. */
export function decideStanding(
  { truth, inUse, unlisted }: Pick<CleanupSnapshot, "truth" | "inUse" | "unlisted">,
  engine: string,
): (object: FoundObject) => OwnerStanding {
  const owned = (because: string): OwnerStanding => ({ kind: "owned", because });
  return (object) => {
    const { lease, kind, namespace, name } = object;
    // Users choose lease ids, so a lease of this installation with an equal id may be another one.
    if (object.otherInstallation !== undefined) return { kind: "left", because: "its lease is stored elsewhere" };
    if (lease === undefined) return owned("its labels are not those of a lease");
    if (object.isTerminating) return owned("it is being removed");
    const left = decideLeftOver(lease, truth.get(lease.id), engine);
    if (!left.isLeftOver) return owned(left.because);
    if (mayBeUsed(object)) {
      if (inUse === undefined) return owned("its use is unknown");
      if (inUse.has(buildUseKey(kind, namespace, name))) return owned(`${left.because}, but it is in use`);
    }
    const unseen = isNamespace(object) ? unlisted.filter((each) => each !== RESERVATION) : [];
    if (unseen.length > 0) return owned(`its content is unknown: ${unseen.join(", ")} could not be listed`);
    return { kind: "left", because: left.because };
  };
}

function decideLeftOver(
  { id, run }: LeaseOrigin,
  truth: LeaseTruth | undefined,
  engine: string,
): { readonly isLeftOver: boolean; readonly because: string } {
  if (truth === undefined) return { isLeftOver: false, because: "its record was not read" };
  switch (truth.kind) {
    case "unknown":
      return { isLeftOver: false, because: truth.because };
    case "none":
      return { isLeftOver: true, because: "there is no such lease" };
    case "record": {
      const { order, phase, takesOver } = truth.record;
      if (order.engine !== engine)
        return { isLeftOver: false, because: `its lease is served by engine ${order.engine}` };
      if (takesOver !== undefined) return { isLeftOver: false, because: `lease ${order.id} takes it over` };
      const { id: origin, run: current } = getOrigin(truth.record);
      if (origin !== id && phase === "ACTIVE")
        return { isLeftOver: true, because: `its lease has the workload of lease ${origin}` };
      if (run > current)
        return { isLeftOver: false, because: `its lease is at run ${current}, before that of the object` };
      if (phase === "ENDED" || phase === "FAILED") return { isLeftOver: true, because: `its lease is ${phase}` };
      if (run < current && phase === "ACTIVE")
        return { isLeftOver: true, because: `its lease is at run ${current}, and this is of run ${run}` };
      return { isLeftOver: false, because: `its lease is ${phase}` };
    }
  }
}

/** Facts about the lease records that clean-up relies on. */
export type RecordCount = {
  /** Number of leases of this engine that have a record. */
  readonly records: number;
  /** When the bucket of records was created, by the clock of NATS. */
  readonly bucketCreatedMs: number;
};

/** Tolerated difference between the clocks of Kubernetes and NATS. */
const MAX_CLOCK_SKEW_MS = 60_000;

/** Decides whether clean-up needs confirmation; undefined if it may continue. `confirmed` is the number of leftover objects that a user has confirmed. */
export function decideCleanupBrake(
  steps: readonly CleanupStep[],
  { truth }: Pick<CleanupSnapshot, "truth">,
  { records, bucketCreatedMs: bucketCreatedAtMs }: RecordCount,
  confirmed: number,
  policy: BrakePolicy,
): SweepBrake | undefined {
  const leftOver = steps.filter((step) => step.kind !== "keep");
  const older = leftOver.filter(
    ({ object: { lease, createdMs: madeMs } }) =>
      truth.get(lease?.id ?? "")?.kind === "none" &&
      madeMs !== undefined &&
      madeMs + MAX_CLOCK_SKEW_MS < bucketCreatedAtMs,
  );
  const counts = { left: leftOver.length, olderThanStore: older.length, found: steps.length };
  return decideSweepBrake({ ...counts, owners: records, owner: "lease", confirmed }, policy);
}
