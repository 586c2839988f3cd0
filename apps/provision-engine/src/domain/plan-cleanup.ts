import { originOf, type LeaseRecord, type Origin } from "./lease.ts";

/** An object in the cluster, or a reservation in the ledger, that says that it is a lease's. */
export type FoundObject = {
  readonly kind: string;
  /** Empty: it lives in none. */
  readonly namespace: string;
  readonly name: string;
  /** No other object ever has it. */
  readonly uid: string;
  /** Undefined: it does not say. */
  readonly madeMs: number | undefined;
  /** Of the labels; undefined: they are not those of a lease. */
  readonly lease: { readonly id: string; readonly run: number } | undefined;
  /** The installation that says that it has made it, where that is another one than ours. */
  readonly otherInstallation: string | undefined;
  /** It is being removed already. */
  readonly isGoing: boolean;
};

export type Found = {
  readonly objects: readonly FoundObject[];
  /** Kinds that could not be listed: of these there may be more. */
  readonly unlisted: readonly string[];
};

/** What the record of a lease says, of one that was taken over that of the lease that has its workload now. Unknown: it cannot be read, or asked for. */
export type LeaseTruth =
  | { readonly is: "record"; readonly record: Pick<LeaseRecord, "order" | "phase" | "run" | "takesOver" | "madeFor"> }
  | { readonly is: "none" }
  | { readonly is: "unknown"; readonly because: string };

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

export type CleanupStep = {
  /** "suspect": it looks left over, and is removed when it still does later. */
  readonly do: "keep" | "suspect" | "remove";
  readonly object: FoundObject;
  readonly because: string;
};

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
export function isGivenBack({ do: what, object }: CleanupStep, { truth }: Pick<CleanupSnapshot, "truth">): boolean {
  return what === "remove" && object.kind === RESERVATION && truth.get(object.lease?.id ?? "")?.is === "record";
}

/**
 * What is left of leases that are over, and may go: of every object one step. It stays on any doubt: while its record cannot be read, as long as something mounts it or lives
 * in it, or nobody knows all that does, and as long as it has not looked left over for some time.
 */
export function planCleanup(snapshot: CleanupSnapshot, policy: CleanupPolicy): CleanupStep[] {
  const steps = snapshot.objects.map((object) => planObject(object, snapshot, policy));
  const staying = new Set(steps.filter((step) => step.do !== "remove").map(({ object }) => object.namespace));
  return steps.map((step) =>
    step.do === "remove" && isNamespace(step.object) && staying.has(step.object.name)
      ? { ...step, do: "suspect", because: "something of a lease is still in it" }
      : step,
  );
}

function planObject(object: FoundObject, snapshot: CleanupSnapshot, { engine, graceMs }: CleanupPolicy): CleanupStep {
  const { truth, inUse, unlisted, leftSince, nowMs } = snapshot;
  const step = (what: CleanupStep["do"], because: string): CleanupStep => ({ do: what, object, because });
  const { lease, kind, namespace, name, uid, otherInstallation } = object;
  if (lease === undefined) return step("keep", "its labels are not those of a lease");
  // Its record is elsewhere, and ids of leases are those of users: what is stored here under the same id may be of another lease.
  if (otherInstallation !== undefined) return step("keep", `it is of installation ${otherInstallation}`);
  if (object.isGoing) return step("keep", "it is being removed");
  const left = decideLeftOver(lease, truth.get(lease.id), engine);
  if (!left.is) return step("keep", left.because);
  if (mayBeUsed(object)) {
    if (inUse === undefined) return step("keep", "nobody knows whether it is used");
    if (inUse.has(useKey(kind, namespace, name))) return step("keep", `${left.because}, but it is used`);
  }
  const unseen = isNamespace(object) ? unlisted.filter((each) => each !== RESERVATION) : [];
  if (unseen.length > 0)
    return step("keep", `nobody knows all that is in it: ${unseen.join(", ")} could not be listed`);
  const since = leftSince.get(uid);
  if (since === undefined || nowMs - since < graceMs) return step("suspect", left.because);
  return step("remove", left.because);
}

function decideLeftOver(
  { id, run }: Origin,
  truth: LeaseTruth | undefined,
  engine: string,
): { readonly is: boolean; readonly because: string } {
  if (truth === undefined) return { is: false, because: "its record was not looked at" };
  switch (truth.is) {
    case "unknown":
      return { is: false, because: truth.because };
    case "none":
      return { is: true, because: "there is no such lease" };
    case "record": {
      const { order, phase, takesOver } = truth.record;
      if (order.engine !== engine) return { is: false, because: `its lease is served by engine ${order.engine}` };
      if (takesOver !== undefined) return { is: false, because: `lease ${order.id} takes it over` };
      const { id: origin, run: current } = originOf(truth.record);
      if (origin !== id && phase === "ACTIVE")
        return { is: true, because: `its lease has what was made for lease ${origin}` };
      if (run > current) return { is: false, because: `its lease is at run ${current}, before that of the object` };
      if (phase === "ENDED" || phase === "FAILED") return { is: true, because: `its lease is ${phase}` };
      if (run < current && phase === "ACTIVE")
        return { is: true, because: `its lease is at run ${current}, and this is of run ${run}` };
      return { is: false, because: `its lease is ${phase}` };
    }
  }
}
