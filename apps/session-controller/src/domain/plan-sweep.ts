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
};

/** A pod that carries the labels of a session. `ownerUid` is empty when it says none. */
export type OwnedPod = {
  readonly pod: string;
  readonly uid: string;
  readonly session: string;
  readonly ownerUid: string;
  readonly deleting: boolean;
  readonly createdAtMs: number;
};

export type OwnedReservation = { readonly id: string; readonly session: string; readonly createdAtMs: number };

/** Pods and reservations are listed before the sessions: whatever is there then was made for a session that is listed, or for none. */
export type SweepSnapshot = {
  readonly nowMs: number;
  readonly sessions: readonly SessionDigest[];
  readonly pods: readonly OwnedPod[];
  readonly reservations: readonly OwnedReservation[];
};

export type SweepPolicy = {
  /** What belongs to a session that nobody knows is left alone for this long. */
  readonly leakAgeMs: number;
};

export type SweepStep =
  | { readonly do: "run"; readonly session: string; readonly uid: string; readonly because: "not-finished" }
  | { readonly do: "expire"; readonly session: string; readonly uid: string; readonly because: "ttl-over" }
  | {
      readonly do: "delete-pod";
      readonly session: string;
      readonly pod: string;
      readonly uid: string;
      readonly because: "session-over" | "session-unknown" | "other-generation";
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
    };

/**
 * Repairs what a session's own executor did not: sessions that nobody runs, pods and machines of sessions that are over or unknown, sessions past their time.
 * Looks only at what is, so that it does not matter how it came to be. Never gives machines back while a pod may still be on them.
 */
export function planSweep(snapshot: SweepSnapshot, policy: SweepPolicy): SweepStep[] {
  const sessions = new Map(snapshot.sessions.map((session) => [session.name, session]));
  const withPods = new Set(snapshot.pods.map(({ session }) => session));
  const reserved = new Map(snapshot.reservations.map(({ session, id }) => [session, id]));
  return [
    ...snapshot.sessions.flatMap((session) =>
      planDigest(session, withPods.has(session.name), reserved.get(session.name), snapshot.nowMs),
    ),
    ...snapshot.pods.flatMap((pod) => planPod(pod, sessions.get(pod.session), snapshot.nowMs, policy)),
    ...snapshot.reservations.flatMap((reservation) => {
      const session = sessions.get(reservation.session);
      return withPods.has(reservation.session) ? [] : planReservation(reservation, session, snapshot.nowMs, policy);
    }),
  ];
}

function planDigest(
  session: SessionDigest,
  hasPods: boolean,
  listedReservation: string | undefined,
  nowMs: number,
): SweepStep[] {
  const { name, uid, finishedAtMs, ttlMs, podsDeleted, released } = session;
  if (finishedAtMs === 0) return [{ do: "run", session: name, uid, because: "not-finished" }];
  if (!released) {
    if (hasPods) return [];
    const gone = { do: "confirm-pods-gone", session: name, uid, because: "none-listed" } as const;
    const reservationId = listedReservation ?? session.reservationId;
    const release = { do: "release", session: name, uid, reservationId, because: "session-over" } as const;
    return [...(podsDeleted ? [] : [gone]), release];
  }
  return nowMs - finishedAtMs >= ttlMs ? [{ do: "expire", session: name, uid, because: "ttl-over" }] : [];
}

function planPod(
  { pod, uid, session, ownerUid, deleting, createdAtMs }: OwnedPod,
  owner: SessionDigest | undefined,
  nowMs: number,
  policy: SweepPolicy,
): SweepStep[] {
  if (deleting) return [];
  if (owner === undefined) {
    const old = nowMs - createdAtMs >= policy.leakAgeMs;
    return old ? [{ do: "delete-pod", session, pod, uid, because: "session-unknown" }] : [];
  }
  if (owner.finishedAtMs > 0) return [{ do: "delete-pod", session, pod, uid, because: "session-over" }];
  return owner.uid === ownerUid ? [] : [{ do: "delete-pod", session, pod, uid, because: "other-generation" }];
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
