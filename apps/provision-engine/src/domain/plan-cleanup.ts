import { planSweep, type OwnedObject, type Standing, type SweepStep } from "@muster/ledger-client/plan-sweep";
import { originOf, type LeaseRecord, type Origin } from "./lease.ts";

/** An object in the cluster, or a reservation in the ledger, that says that it is a lease's. */
export type FoundObject = OwnedObject & {
  readonly kind: string;
  /** Empty: it lives in none. */
  readonly namespace: string;
  readonly name: string;
  /** Undefined: it does not say. */
  readonly createdMs: number | undefined;
  /** Of the labels; undefined: they are not those of a lease. */
  readonly lease: { readonly id: string; readonly run: number } | undefined;
  /** It is being removed already. */
  readonly isTerminating: boolean;
};

export type Found = {
  readonly objects: readonly FoundObject[];
  /** Kinds that could not be listed: of these there may be more. */
  readonly unlisted: readonly string[];
};

/** What the record of a lease says, of one that was taken over that of the lease that has its workload now. Unknown: it cannot be read, or asked for. */
export type LeaseTruth =
  | { readonly kind: "record"; readonly record: Pick<LeaseRecord, "order" | "phase" | "run" | "takesOver" | "madeFor"> }
  | { readonly kind: "none" }
  | { readonly kind: "unknown"; readonly because: string };

/** Claims of volumes and namespaces that hold what is needed. Undefined: nobody could say. */
export type InUse = ReadonlySet<string> | undefined;

export type CleanupSnapshot = Found & {
  readonly truth: ReadonlyMap<string, LeaseTruth>;
  /** Of `useKey`. */
  readonly inUse: InUse;
  /** By uid, since when it has looked left over at every look. */
  readonly leftSince: ReadonlyMap<string, number>;
  readonly nowMs: number;
};

export type CleanupPolicy = {
  /** Id of the engine that cleans up. */
  readonly engine: string;
  /** What is left over has to look so for this long, at two looks at least. */
  readonly graceMs: number;
};

export type CleanupStep = SweepStep<FoundObject>;

const VOLUME_CLAIM = "PersistentVolumeClaim";
const NAMESPACE = "Namespace";
/** Of machines, in the ledger. */
export const RESERVATION = "Reservation";

export function isNamespace({ kind }: FoundObject): boolean {
  return kind === NAMESPACE;
}

/** Of such objects it has to be known whether something uses them. */
export function mayBeUsed(object: FoundObject): boolean {
  return object.kind === VOLUME_CLAIM || isNamespace(object);
}

/** Name of the namespace that it lives in, or is. */
export function placeOf(object: FoundObject): string {
  return isNamespace(object) ? object.name : object.namespace;
}

export function useKey(kind: string, namespace: string, name: string): string {
  return `${kind} ${namespace}/${name}`;
}

/**
 * Whether nothing can be lost by removing it: machines, in the ledger, that are held for a lease whose record is there and says that they are not its own. It is
 * given back whether or not clean-up removes anything else.
 */
export function isStaleReservation(
  { do: what, object }: CleanupStep,
  { truth }: Pick<CleanupSnapshot, "truth">,
): boolean {
  return what === "remove" && object.kind === RESERVATION && truth.get(object.lease?.id ?? "")?.kind === "record";
}

/**
 * What is left of leases that are over, and may go: of every object one step. It stays on any doubt: while its record cannot be read, as long as something mounts it or lives
 * in it, or nobody knows all that does, and as long as it has not looked left over for some time.
 */
export function planCleanup(snapshot: CleanupSnapshot, { engine, graceMs }: CleanupPolicy): CleanupStep[] {
  const { objects, leftSince, nowMs } = snapshot;
  return keepOccupied(planSweep(objects, standingOf(snapshot, engine), { leftSince, nowMs, graceMs }));
}

/** A namespace goes after everything of a lease that lives in it. */
export function keepOccupied(steps: readonly CleanupStep[]): CleanupStep[] {
  const staying = new Set(steps.filter((step) => step.do !== "remove").map(({ object }) => object.namespace));
  return steps.map((step) =>
    step.do === "remove" && isNamespace(step.object) && staying.has(step.object.name)
      ? { ...step, do: "suspect", because: "something of a lease is still in it" }
      : step,
  );
}

/** Whether an object is left over, by what the snapshot has. */
export function standingOf(
  { truth, inUse, unlisted }: Pick<CleanupSnapshot, "truth" | "inUse" | "unlisted">,
  engine: string,
): (object: FoundObject) => Standing {
  const owned = (because: string): Standing => ({ is: "owned", because });
  return (object) => {
    const { lease, kind, namespace, name } = object;
    // Ids of leases are those of users: the lease that is stored here under the same id may be another one.
    if (object.otherInstallation !== undefined) return { is: "left", because: "its lease is stored elsewhere" };
    if (lease === undefined) return owned("its labels are not those of a lease");
    if (object.isTerminating) return owned("it is being removed");
    const left = decideLeftOver(lease, truth.get(lease.id), engine);
    if (!left.isLeftOver) return owned(left.because);
    if (mayBeUsed(object)) {
      if (inUse === undefined) return owned("nobody knows whether it is used");
      if (inUse.has(useKey(kind, namespace, name))) return owned(`${left.because}, but it is used`);
    }
    const unseen = isNamespace(object) ? unlisted.filter((each) => each !== RESERVATION) : [];
    if (unseen.length > 0) return owned(`nobody knows all that is in it: ${unseen.join(", ")} could not be listed`);
    return { is: "left", because: left.because };
  };
}

function decideLeftOver(
  { id, run }: Origin,
  truth: LeaseTruth | undefined,
  engine: string,
): { readonly isLeftOver: boolean; readonly because: string } {
  if (truth === undefined) return { isLeftOver: false, because: "its record was not looked at" };
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
      const { id: origin, run: current } = originOf(truth.record);
      if (origin !== id && phase === "ACTIVE")
        return { isLeftOver: true, because: `its lease has what was made for lease ${origin}` };
      if (run > current)
        return { isLeftOver: false, because: `its lease is at run ${current}, before that of the object` };
      if (phase === "ENDED" || phase === "FAILED") return { isLeftOver: true, because: `its lease is ${phase}` };
      if (run < current && phase === "ACTIVE")
        return { isLeftOver: true, because: `its lease is at run ${current}, and this is of run ${run}` };
      return { isLeftOver: false, because: `its lease is ${phase}` };
    }
  }
}
