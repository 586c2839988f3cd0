import type { Usage } from "../domain/decide-quota.ts";

export type UsageReservation = {
  readonly id: string;
  readonly user: string;
  /** Revision of the record that is being replaced; 0 for a new lease. */
  readonly revision: number;
  readonly added: Usage;
};

/** The usage that writes in flight add, so that concurrent orders of one user do not use the same free quota. */
export type ReservedUsage = {
  /** Counts until disposed or settled. Concurrent writes of one lease by one user count once, because at most one of them succeeds. */
  reserve(reservation: UsageReservation): Disposable;
  /** Reserved usage of a user, without that of this lease. */
  of(user: string, besides: string): Usage;
  /** Drops the reservations of the lease over revisions before this one, which is now known. */
  settle(id: string, revision: number): void;
};

const NONE: Usage = { leases: 0, bytes: 0 };

type Reserved = { readonly id: string; readonly user: string; readonly added: Usage; revision: number; writes: number };

export function reservedUsage(): ReservedUsage {
  const byLease = new Map<string, readonly Reserved[]>();
  const sums = new Map<string, Usage>();
  const find = (id: string, user: string) => byLease.get(id)?.find((each) => each.user === user);
  const count = ({ user, added }: Reserved, by: 1 | -1): void => {
    const { leases, bytes } = sums.get(user) ?? NONE;
    const sum = { leases: leases + by * added.leases, bytes: bytes + by * added.bytes };
    if (sum.leases === 0) sums.delete(user);
    else sums.set(user, sum);
  };
  const add = ({ id, user, revision, added }: UsageReservation): Reserved => {
    const reserved = { id, user, revision, added, writes: 0 };
    byLease.set(id, [...(byLease.get(id) ?? []), reserved]);
    count(reserved, 1);
    return reserved;
  };
  const drop = (reserved: Reserved): void => {
    const all = byLease.get(reserved.id) ?? [];
    if (!all.includes(reserved)) return;
    if (all.length === 1) byLease.delete(reserved.id);
    else
      byLease.set(
        reserved.id,
        all.filter((each) => each !== reserved),
      );
    count(reserved, -1);
  };
  return {
    reserve: (reservation) => {
      const reserved = find(reservation.id, reservation.user) ?? add(reservation);
      reserved.revision = Math.max(reserved.revision, reservation.revision);
      reserved.writes += 1;
      return {
        [Symbol.dispose]: () => {
          reserved.writes -= 1;
          if (reserved.writes === 0) drop(reserved);
        },
      };
    },
    of: (user, besides) => {
      const all = sums.get(user) ?? NONE;
      const own = find(besides, user)?.added ?? NONE;
      return { leases: all.leases - own.leases, bytes: all.bytes - own.bytes };
    },
    settle: (id, revision) => {
      for (const reserved of byLease.get(id) ?? []) if (reserved.revision < revision) drop(reserved);
    },
  };
}
