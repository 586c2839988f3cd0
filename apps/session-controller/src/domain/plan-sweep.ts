import { decideForce, type ForcePolicy, type ForceReason, type NodeSeen } from "@muster/health";
import type { OwnerStanding } from "@muster/ledger-client/plan-sweep";
import { getReplacementPrefix, buildReplacementPrefix } from "./replacement-owner.ts";
import { isQueuedAtLedger, computeQueuedUntilMs, type SessionRecord } from "./session.ts";

/** The facts about a session that a sweep needs. */
export type SessionDigest = {
  readonly name: string;
  readonly uid: string;
  readonly finishedAtMs: number;
  readonly ttlMs: number;
  readonly podsDeleted: boolean;
  readonly released: boolean;
  /** Empty: the record has no reservation id yet. */
  readonly reservationId: string;
  /** The ledger queues the session, and no executor runs it until an event. */
  readonly queued: boolean;
  readonly queuedUntilMs: number;
  readonly cancelRequested: boolean;
  /** The namespace of the session; absent: MUSTER_NAMESPACE. */
  readonly namespace?: string;
};

export function buildDigest(record: SessionRecord): SessionDigest {
  const { name, uid, finishedAtMs, podsDeleted, released, reservationId, cancelRequested, spec } = record;
  return {
    name,
    uid,
    finishedAtMs,
    podsDeleted,
    released,
    reservationId,
    cancelRequested,
    ttlMs: spec.ttlMs,
    queued: isQueuedAtLedger(record),
    queuedUntilMs: computeQueuedUntilMs(record),
    ...(record.elsewhere !== undefined && { namespace: record.elsewhere.namespace }),
  };
}

/** Returns whether a session without an executor needs one. A session queued at the ledger waits for a grant, a cancellation, or its queue timeout. */
export function needsPass({ finishedAtMs, queued, cancelRequested }: SessionDigest): boolean {
  return finishedAtMs === 0 && (!queued || cancelRequested);
}

/** A pod with the labels of a session. `ownerUid` is empty if the pod names no owner uid. */
export type OwnedPod = {
  readonly kind: "pod";
  /** Absent: MUSTER_NAMESPACE. */
  readonly namespace?: string;
  readonly pod: string;
  readonly uid: string;
  readonly session: string;
  readonly ownerUid: string;
  /** The installation that the pod names as its creator, if it is another installation. */
  readonly otherInstallation: string | undefined;
  readonly deleting: boolean;
  /** The node of the pod, once the pod should have ended by itself; undefined before that, and if the node could not be read. */
  readonly overdueOn: NodeSeen | undefined;
  readonly createdAtMs: number;
};

export type OwnedReservation = {
  readonly kind: "reservation";
  readonly uid: string;
  readonly session: string;
  readonly createdAtMs: number;
  readonly granted: boolean;
};

/** A replacement machine, granted or queued. */
export type OwnedReplacement = {
  readonly kind: "replacement";
  readonly uid: string;
  readonly ownerId: string;
  /** The session's name, as far as the owner id contains it. */
  readonly session: string;
  readonly createdAtMs: number;
};

/** An object that a session may leave behind. */
export type OwnedObject = OwnedPod | OwnedReservation | OwnedReplacement;

/** The observed state of a sweep. Objects are listed before sessions, so that each object belongs to a listed session or to none. */
export type SweepSnapshot = {
  readonly nowMs: number;
  readonly sessions: readonly SessionDigest[];
  /** The result of `attributeObject`. */
  readonly objects: readonly OwnedObject[];
};

export type SweepPolicy = ForcePolicy & {
  /**
   * Minimum age at which an object of an unknown session is removed. A record is stored before the session's first object and deleted after its last object, so
   * a young object without a record comes from a list that lags. A change of leader does not reset the age, unlike the time since the first sweep that found
   * the object.
   */
  readonly leakAgeMs: number;
};

/**
 * Why an object is left over, or is not; each is decided by `podStanding` or `machineStanding`.
 * - owned: session-runs, not-released-by-its-session
 * - blocked: session-unknown-yet (it is younger than `leakAgeMs`), being-deleted, pods-may-be-on-it
 * - left: session-over, session-unknown, other-generation (the name has a later session), other-installation, a `ForceReason`
 */
type StandingReason =
  | "session-runs"
  | "not-released-by-its-session"
  | "session-unknown-yet"
  | "being-deleted"
  | "pods-may-be-on-it"
  | "session-over"
  | "session-unknown"
  | "other-generation"
  | "other-installation"
  | ForceReason;

type SessionStanding = OwnerStanding<StandingReason>;

/** A step on the record of a session that no executor runs. */
export type RecordStep = { readonly session: string; readonly uid: string } & (
  | { readonly kind: "run"; readonly because: "not-queued-any-more" }
  | { readonly kind: "expire"; readonly because: "ttl-over" }
  | { readonly kind: "confirm-pods-gone"; readonly because: "none-listed" }
  | {
      readonly kind: "release";
      /** Releases only this reservation; empty: the reservation no longer exists, and only the record is updated. */
      readonly reservationId: string;
      readonly because: "session-over";
    }
);

/**
 * Returns whether a pod belongs to another installation, whose records are stored elsewhere. A pod whose session is stored here with an equal uid is ours,
 * because uids are unique: its records were moved to an installation with another id.
 */
export function isForeign(
  { ownerUid, otherInstallation }: Pick<OwnedPod, "ownerUid" | "otherInstallation">,
  storedUid: string | undefined,
): boolean {
  return otherInstallation !== undefined && ownerUid !== storedUid;
}

/** Completes the session name of each replacement, and removes the other installation from pods that are ours. */
export function attributeObject(
  objects: readonly OwnedObject[],
  sessions: readonly SessionDigest[],
): readonly OwnedObject[] {
  const uids = new Map(sessions.map(({ name, uid }) => [name, uid]));
  const names = new Map(sessions.map((session) => [buildReplacementPrefix(session), session.name]));
  return objects.map((object) => {
    if (object.kind === "replacement")
      return { ...object, session: names.get(getReplacementPrefix(object.ownerId)) ?? object.session };
    const isOurs = object.kind === "pod" && !isForeign(object, uids.get(object.session));
    return isOurs ? { ...object, otherInstallation: undefined } : object;
  });
}

/**
 * Plans the work that executors left: runs sessions that the ledger no longer queues, cleans up finished sessions, deletes expired records. Never releases
 * machines while a pod may run on them.
 */
export function planRecords(snapshot: SweepSnapshot): RecordStep[] {
  const reserved = new Map(
    snapshot.objects.flatMap((object) => (object.kind === "reservation" ? [[object.session, object]] : [])),
  );
  const withPods = sessionsWithPods(snapshot);
  return snapshot.sessions.flatMap((session) => {
    const reservation = reserved.get(session.name);
    if (session.finishedAtMs === 0) return planRun(session, reservation);
    return planOver(session, withPods.has(session.name), reservation?.uid, snapshot.nowMs);
  });
}

/**
 * Returns the function that decides whether an object is left over. Machines are blocked while a pod of their session is listed. An object of another
 * installation is reported as left over, and kept.
 */
export function decideStanding(snapshot: SweepSnapshot, policy: SweepPolicy): (object: OwnedObject) => SessionStanding {
  const { nowMs } = snapshot;
  const sessions = new Map(snapshot.sessions.map((session) => [session.name, session]));
  const withPods = sessionsWithPods(snapshot);
  return (object) => {
    const owner = sessions.get(object.session);
    const isYoung = nowMs - object.createdAtMs < policy.leakAgeMs;
    if (object.kind === "pod") return podStanding(object, owner, isYoung, decideForce(object.overdueOn, nowMs, policy));
    const isOther = object.kind === "replacement" && !isReplacementOf(object, owner);
    return machineStanding(isOther ? undefined : owner, isYoung, withPods.has(object.session));
  };
}

function sessionsWithPods({ objects }: SweepSnapshot): ReadonlySet<string> {
  const own = objects.filter((object) => object.kind === "pod" && object.otherInstallation === undefined);
  return new Set(own.map(({ session }) => session));
}

/** Plans a pass over a session unless the ledger still queues the session. */
function planRun({ name, uid, queued }: SessionDigest, reservation: OwnedReservation | undefined): RecordStep[] {
  const waits = !queued || reservation?.granted === false;
  return waits ? [] : [{ kind: "run", session: name, uid, because: "not-queued-any-more" }];
}

function planOver(
  session: SessionDigest,
  hasPods: boolean,
  listedReservation: string | undefined,
  nowMs: number,
): RecordStep[] {
  const { name, uid, finishedAtMs, ttlMs, podsDeleted, released } = session;
  if (!released || !podsDeleted) {
    if (hasPods) return [];
    const gone = { kind: "confirm-pods-gone", session: name, uid, because: "none-listed" } as const;
    const reservationId = listedReservation ?? session.reservationId;
    const release = { kind: "release", session: name, uid, reservationId, because: "session-over" } as const;
    return [...(podsDeleted ? [] : [gone]), ...(released ? [] : [release])];
  }
  return nowMs - finishedAtMs >= ttlMs ? [{ kind: "expire", session: name, uid, because: "ttl-over" }] : [];
}

function podStanding(
  { ownerUid, otherInstallation, deleting }: OwnedPod,
  owner: SessionDigest | undefined,
  isYoung: boolean,
  forced: ForceReason | undefined,
): SessionStanding {
  if (otherInstallation !== undefined) return { kind: "left", because: "other-installation" };
  if (owner?.uid === ownerUid && owner.finishedAtMs === 0) return { kind: "owned", because: "session-runs" };
  if (deleting) return forced === undefined ? BEING_DELETED : { kind: "left", because: forced };
  if (owner === undefined) return isYoung ? YOUNG : UNKNOWN;
  return owner.finishedAtMs > 0 ? OVER : { kind: "left", because: "other-generation" };
}

function machineStanding(owner: SessionDigest | undefined, isYoung: boolean, hasPods: boolean): SessionStanding {
  if (owner !== undefined && !(owner.finishedAtMs > 0 && owner.released))
    return { kind: "owned", because: "not-released-by-its-session" };
  if (hasPods) return { kind: "blocked", because: "pods-may-be-on-it" };
  if (owner !== undefined) return OVER;
  return isYoung ? YOUNG : UNKNOWN;
}

const OVER: SessionStanding = { kind: "left", because: "session-over" };
const UNKNOWN: SessionStanding = { kind: "left", because: "session-unknown" };
const YOUNG: SessionStanding = { kind: "blocked", because: "session-unknown-yet" };
const BEING_DELETED: SessionStanding = { kind: "blocked", because: "being-deleted" };

function isReplacementOf({ ownerId }: OwnedReplacement, owner: SessionDigest | undefined): boolean {
  return owner !== undefined && buildReplacementPrefix(owner) === getReplacementPrefix(ownerId);
}
