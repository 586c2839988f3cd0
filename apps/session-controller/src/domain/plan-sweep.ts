import { decideForce, type ForcePolicy, type ForceReason, type NodeSeen } from "@muster/health";
import { prefixOfReplacement, replacementPrefix, sessionOfReplacement } from "./replacement-owner.ts";
import { isQueuedAtLedger, queuedUntilMs, type SessionRecord } from "./session.ts";

/** What a sweep needs to know of a session. */
export type SessionDigest = {
  readonly name: string;
  readonly uid: string;
  readonly finishedAtMs: number;
  readonly ttlMs: number;
  readonly podsDeleted: boolean;
  readonly released: boolean;
  /** Empty: the session was never told of one. */
  readonly reservationId: string;
  /** The ledger has it in its queue, and no executor looks at it until something changes. */
  readonly queued: boolean;
  readonly queuedUntilMs: number;
  readonly cancelRequested: boolean;
};

export function digestOf(record: SessionRecord): SessionDigest {
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
    queuedUntilMs: queuedUntilMs(record),
  };
}

/** A pod that carries the labels of a session. `ownerUid` is empty when it says none. */
export type OwnedPod = {
  readonly pod: string;
  readonly uid: string;
  readonly session: string;
  readonly ownerUid: string;
  /** The installation that says that it has made it, where that is another one than ours. */
  readonly otherInstallation: string | undefined;
  readonly deleting: boolean;
  /** Its node, once the pod should have gone by itself; undefined before that, and when the node could not be looked at. */
  readonly overdueOn: NodeSeen | undefined;
  readonly createdAtMs: number;
};

export type OwnedReservation = {
  readonly id: string;
  readonly session: string;
  readonly createdAtMs: number;
  readonly granted: boolean;
};

/** A machine, granted or waited for, in place of one that a session's component lost. */
export type OwnedReplacement = { readonly id: string; readonly ownerId: string; readonly createdAtMs: number };

/** Pods and reservations are listed before the sessions: whatever is there then was made for a session that is listed, or for none. */
export type SweepSnapshot = {
  readonly nowMs: number;
  readonly sessions: readonly SessionDigest[];
  /** Undefined: the API server or the ledger was away, so that nothing is known to be left over. */
  readonly seen:
    | {
        readonly pods: readonly OwnedPod[];
        readonly reservations: readonly OwnedReservation[];
        readonly replacements: readonly OwnedReplacement[];
      }
    | undefined;
};

export type SweepPolicy = ForcePolicy & {
  /** What belongs to a session that nobody knows is left alone for this long. */
  readonly leakAgeMs: number;
};

export type SweepStep =
  | {
      readonly do: "run";
      readonly session: string;
      readonly uid: string;
      readonly because: "not-finished" | "cancel-requested" | "queue-time-over" | "not-queued-any-more";
    }
  | { readonly do: "expire"; readonly session: string; readonly uid: string; readonly because: "ttl-over" }
  | {
      readonly do: "delete-pod";
      readonly session: string;
      readonly pod: string;
      readonly uid: string;
      /** Without its node's word. */
      readonly force: boolean;
      readonly because: "session-over" | "session-unknown" | "other-generation" | ForceReason;
    }
  | {
      readonly do: "confirm-pods-gone";
      readonly session: string;
      readonly uid: string;
      readonly because: "none-listed";
    }
  | {
      readonly do: "release";
      readonly session: string;
      /** Undefined: the session is not known. */
      readonly uid: string | undefined;
      /** Only this one is given back; empty: there is none, and only the record does not say so. */
      readonly reservationId: string;
      readonly because: "session-over" | "session-unknown";
    }
  | {
      readonly do: "release-replacement";
      /** As far as the owner's id names it. */
      readonly session: string;
      readonly ownerId: string;
      readonly reservationId: string;
      readonly because: "session-over" | "session-unknown";
    };

/**
 * Repairs what a session's own executor did not: sessions that nobody runs, pods and machines of sessions that are over or unknown, sessions past their time.
 * Looks only at what is, so that it does not matter how it came to be. Never gives machines back while a pod may still be on them, and never touches a pod of another installation.
 */
export function planSweep({ nowMs, sessions: all, seen }: SweepSnapshot, policy: SweepPolicy): SweepStep[] {
  const live = all.filter(({ finishedAtMs }) => finishedAtMs === 0);
  const reserved = seen && new Map(seen.reservations.map((reservation) => [reservation.session, reservation]));
  const runs = live.flatMap((session) => planRun(session, reserved, nowMs));
  if (seen === undefined || reserved === undefined) return runs;
  const { reservations, replacements } = seen;
  const sessions = new Map(all.map((session) => [session.name, session]));
  const pods = seen.pods.filter((pod) => !isForeign(pod, sessions.get(pod.session)?.uid));
  const withPods = new Set(pods.map(({ session }) => session));
  return [
    ...runs,
    ...all.flatMap((session) => planOver(session, withPods.has(session.name), reserved.get(session.name)?.id, nowMs)),
    ...pods.flatMap((pod) => planPod(pod, sessions.get(pod.session), nowMs, policy)),
    ...reservations.flatMap((reservation) => {
      const session = sessions.get(reservation.session);
      return withPods.has(reservation.session) ? [] : planReservation(reservation, session, nowMs, policy);
    }),
    ...planReplacements(replacements, all, withPods, { nowMs, leakAgeMs: policy.leakAgeMs }),
  ];
}

/**
 * Whether a pod is another installation's: its records are elsewhere, so that nobody here knows whether it is wanted. A pod whose session is stored here with the uid that it names is
 * ours whatever it says, for no two sessions have one uid: so it is where records were taken along to an installation with another id.
 */
export function isForeign(
  { ownerUid, otherInstallation }: Pick<OwnedPod, "ownerUid" | "otherInstallation">,
  storedUid: string | undefined,
): boolean {
  return otherInstallation !== undefined && ownerUid !== storedUid;
}

/** Ids of the installations whose pods a sweep has met, one for each pod that it leaves alone. */
export function leftAlone({ sessions, seen }: SweepSnapshot): readonly string[] {
  const uids = new Map(sessions.map(({ name, uid }) => [name, uid]));
  const foreign = (seen?.pods ?? []).filter((pod) => isForeign(pod, uids.get(pod.session)));
  return foreign.flatMap(({ otherInstallation }) => otherInstallation ?? []);
}

/** A session that waits at the ledger is left there as long as the ledger says so; every other one is run, which changes nothing where it is run already. */
function planRun(
  { name, uid, queued, queuedUntilMs, cancelRequested }: SessionDigest,
  reserved: ReadonlyMap<string, OwnedReservation> | undefined,
  nowMs: number,
): SweepStep[] {
  const run = { do: "run", session: name, uid } as const;
  if (!queued) return [{ ...run, because: "not-finished" }];
  if (cancelRequested) return [{ ...run, because: "cancel-requested" }];
  if (nowMs >= queuedUntilMs) return [{ ...run, because: "queue-time-over" }];
  return reserved === undefined || reserved.get(name)?.granted === false
    ? []
    : [{ ...run, because: "not-queued-any-more" }];
}

/** Sessions whose time in the queue has ended between two moments. */
export function planOverdue(sessions: readonly SessionDigest[], afterMs: number, nowMs: number): SweepStep[] {
  return sessions
    .filter(({ queued, queuedUntilMs }) => queued && queuedUntilMs > afterMs && queuedUntilMs <= nowMs)
    .map(({ name, uid }) => ({ do: "run", session: name, uid, because: "queue-time-over" }));
}

/** When the next time in the queue ends; Infinity: none does. */
export function nextOverdueMs(sessions: readonly SessionDigest[], afterMs: number): number {
  return sessions.reduce(
    (next, { queued, queuedUntilMs }) => (queued && queuedUntilMs > afterMs ? Math.min(next, queuedUntilMs) : next),
    Number.POSITIVE_INFINITY,
  );
}

function planOver(
  session: SessionDigest,
  hasPods: boolean,
  listedReservation: string | undefined,
  nowMs: number,
): SweepStep[] {
  const { name, uid, finishedAtMs, ttlMs, podsDeleted, released } = session;
  if (finishedAtMs === 0) return [];
  if (!released || !podsDeleted) {
    if (hasPods) return [];
    const gone = { do: "confirm-pods-gone", session: name, uid, because: "none-listed" } as const;
    const reservationId = listedReservation ?? session.reservationId;
    const release = { do: "release", session: name, uid, reservationId, because: "session-over" } as const;
    return [...(podsDeleted ? [] : [gone]), ...(released ? [] : [release])];
  }
  return nowMs - finishedAtMs >= ttlMs ? [{ do: "expire", session: name, uid, because: "ttl-over" }] : [];
}

function planPod(
  { pod, uid, session, ownerUid, deleting, createdAtMs, overdueOn }: OwnedPod,
  owner: SessionDigest | undefined,
  nowMs: number,
  policy: SweepPolicy,
): SweepStep[] {
  const remove = { do: "delete-pod", session, pod, uid } as const;
  if (deleting) {
    const because = decideForce(overdueOn, nowMs, policy);
    const wanted = owner?.uid === ownerUid && owner.finishedAtMs === 0;
    return because === undefined || wanted ? [] : [{ ...remove, force: true, because }];
  }
  if (owner === undefined) {
    const old = nowMs - createdAtMs >= policy.leakAgeMs;
    return old ? [{ ...remove, force: false, because: "session-unknown" }] : [];
  }
  if (owner.finishedAtMs > 0) return [{ ...remove, force: false, because: "session-over" }];
  return owner.uid === ownerUid ? [] : [{ ...remove, force: false, because: "other-generation" }];
}

/** Those of sessions that are over or unknown, once none of their pods is left. */
function planReplacements(
  replacements: readonly OwnedReplacement[],
  sessions: readonly SessionDigest[],
  withPods: ReadonlySet<string>,
  { nowMs, leakAgeMs }: { readonly nowMs: number; readonly leakAgeMs: number },
): SweepStep[] {
  if (replacements.length === 0) return [];
  const owners = new Map(sessions.map((session) => [replacementPrefix(session), session]));
  return replacements.flatMap(({ id, ownerId, createdAtMs }): SweepStep[] => {
    const owner = owners.get(prefixOfReplacement(ownerId));
    const session = owner?.name ?? sessionOfReplacement(ownerId);
    if (withPods.has(session)) return [];
    const step = { do: "release-replacement", session, ownerId, reservationId: id } as const;
    if (owner === undefined) return nowMs - createdAtMs >= leakAgeMs ? [{ ...step, because: "session-unknown" }] : [];
    return owner.finishedAtMs > 0 && owner.released ? [{ ...step, because: "session-over" }] : [];
  });
}

function planReservation(
  { id: reservationId, session, createdAtMs }: OwnedReservation,
  owner: SessionDigest | undefined,
  nowMs: number,
  policy: SweepPolicy,
): SweepStep[] {
  if (owner !== undefined) {
    const leaked = owner.finishedAtMs > 0 && owner.released;
    return leaked ? [{ do: "release", session, uid: owner.uid, reservationId, because: "session-over" }] : [];
  }
  const old = nowMs - createdAtMs >= policy.leakAgeMs;
  return old ? [{ do: "release", session, uid: undefined, reservationId, because: "session-unknown" }] : [];
}
