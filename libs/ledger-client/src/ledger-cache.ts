import type { Reservation } from "./reservation.ts";

/**
 * A reservation with the time at which this process first observed it, or observed that it waits again. The time is local, because the clock of the ledger may
 * differ.
 */
export type SeenReservation = Reservation & { readonly seenAtMs: number };

type ReservationKey = Pick<Reservation, "id" | "ownerId" | "sequence">;

/**
 * The known reservations of one owner kind, at most one per owner. Answers, events and lists may arrive late, in any order and repeatedly. The cache never
 * shows an earlier state of an owner than it has shown.
 */
export type LedgerCache = {
  get(ownerId: string): SeenReservation | undefined;
  /** The reservations of the group in the order of owner ids. */
  inGroup(group: string): readonly SeenReservation[];
  groups(): ReadonlySet<string>;
  /** Stores the state in an answer or an event. */
  put(shown: Reservation): void;
  /** Ends this reservation and every earlier one of its owner. */
  end(over: ReservationKey): void;
  /** Call it before the first page is requested. */
  beginList(): {
    /** `nextSequence`: that of the first page, 0 if the ledger states none. Undefined: the list is incomplete, so missing reservations may exist. */
    finish(listed: readonly Reservation[], nextSequence: number | undefined): void;
  };
};

export type LedgerCacheOptions = {
  /** Owners of one group are shown together. */
  readonly groupOf: (ownerId: string) => string;
  /** Called with the group after each change. */
  readonly changed: (group: string) => void;
  readonly nowMs: () => number;
};

/** Limit of remembered ends, of reservations and of owners. Late events arrive within moments, and lists within seconds. */
const MAX_ENDED = 10_000;

export function makeLedgerCache(options: LedgerCacheOptions): LedgerCache {
  const { get, all, store, ...read } = groupReservations(options);
  const ended = rememberEnds();
  /** A complete list has shown every reservation below this sequence that was not over. */
  let shownBelow = 0;
  let completed = 0;

  /** `floor`: every reservation with a lower sequence that is not known is over. */
  function take(shown: Reservation, floor: number): void {
    const { ownerId, id, sequence } = shown;
    const known = get(ownerId);
    if (ended.has(shown)) return;
    if (known?.id === id) {
      if (isOlder(shown, known)) return;
    } else if (sequence > 0 && sequence < Math.max(floor, known?.sequence ?? 0)) return;
    store(ownerId, shown);
  }

  function finishList(listed: readonly Reservation[], nextSequence: number, begun: Begun): void {
    const isRecreated = nextSequence > 0 && nextSequence < begun.shownBelow;
    if (isRecreated) {
      shownBelow = 0;
      ended.clear();
    }
    const isNumbered = nextSequence > 0 && !isRecreated;
    const isListedLater = (known: Reservation): boolean =>
      isNumbered ? known.sequence < nextSequence : begun.known.get(known.ownerId)?.id === known.id;
    const shown = new Map(listed.map((each) => [each.ownerId, each]));
    for (const known of all())
      if (shown.get(known.ownerId)?.id !== known.id && isListedLater(known)) store(known.ownerId, undefined);
    // The list now proves the end of each reservation that it omits.
    if (isNumbered) ended.dropSequencesBelow(nextSequence);
    const floor = completed > begun.completed ? shownBelow : 0;
    for (const each of shown.values()) {
      const known = get(each.ownerId);
      const isUnordered = each.sequence === 0 && known !== undefined && known.id !== each.id;
      if (!isUnordered) take(each, floor);
    }
    shownBelow = Math.max(shownBelow, nextSequence);
    completed += 1;
  }

  return {
    get,
    ...read,
    put: (shown) => take(shown, shownBelow),
    end: (over) => {
      const { ownerId, id, sequence } = over;
      ended.add(over);
      const known = get(ownerId);
      if (known !== undefined && (known.id === id || known.sequence < sequence)) store(ownerId, undefined);
    },
    beginList: () => {
      const known = new Map(all().map((each) => [each.ownerId, each]));
      const begun = { completed, shownBelow, known };
      return {
        finish: (listed, nextSequence) => {
          if (nextSequence === undefined) for (const each of listed) take(each, shownBelow);
          else finishList(listed, nextSequence, begun);
        },
      };
    },
  };
}

/** Whether the state is older than the other one of the same reservation. A reservation waits again only in a higher revision. */
function isOlder(shown: Reservation, known: Reservation): boolean {
  if (shown.revision !== known.revision) return shown.revision < known.revision;
  return known.state === "granted" && shown.state === "waiting";
}

/** The known state when a list began. */
type Begun = {
  /** Number of complete lists. */
  readonly completed: number;
  readonly shownBelow: number;
  readonly known: ReadonlyMap<string, Reservation>;
};

/** The current reservation of each owner, by group. */
function groupReservations({ groupOf, changed, nowMs }: LedgerCacheOptions) {
  const groups = new Map<string, Map<string, SeenReservation>>();
  const get = (ownerId: string): SeenReservation | undefined => groups.get(groupOf(ownerId))?.get(ownerId);
  return {
    get,
    all: (): SeenReservation[] => [...groups.values()].flatMap((members) => [...members.values()]),
    inGroup: (group: string): SeenReservation[] =>
      [...(groups.get(group)?.values() ?? [])].sort((a, b) => (a.ownerId < b.ownerId ? -1 : 1)),
    groups: (): ReadonlySet<string> => new Set(groups.keys()),
    /** Undefined: the owner has none. */
    store: (ownerId: string, next: Reservation | undefined): void => {
      const known = get(ownerId);
      if (isSame(known, next)) return;
      const group = groupOf(ownerId);
      const members = groups.get(group) ?? new Map<string, SeenReservation>();
      const waitsAgain = known?.state === "granted" && next?.state === "waiting";
      const seenAtMs = known?.id === next?.id && !waitsAgain ? known?.seenAtMs : undefined;
      if (next === undefined) members.delete(ownerId);
      else members.set(ownerId, { ...next, seenAtMs: seenAtMs ?? nowMs() });
      if (members.size === 0) groups.delete(group);
      else groups.set(group, members);
      changed(group);
    },
  };
}

/** Remembers which reservations are over; an end covers every earlier reservation of its owner. */
function rememberEnds() {
  const keys = new Set<string>();
  /** The sequence of the latest ended reservation, by owner. */
  const upTo = new Map<string, number>();
  return {
    has: (key: ReservationKey): boolean =>
      keys.has(buildReservationKey(key)) || (key.sequence > 0 && key.sequence <= (upTo.get(key.ownerId) ?? 0)),
    add: (over: ReservationKey): void => {
      const { ownerId, sequence } = over;
      keys.add(buildReservationKey(over));
      dropOldest(keys);
      if (sequence > 0) upTo.set(ownerId, Math.max(sequence, upTo.get(ownerId) ?? 0));
      dropOldest(upTo);
    },
    dropSequencesBelow: (below: number): void => {
      for (const [owner, sequence] of upTo) if (sequence < below) upTo.delete(owner);
    },
    clear: (): void => {
      keys.clear();
      upTo.clear();
    },
  };
}

/** Includes the owner, because a recreated ledger restarts its numbering and reuses ids. */
function buildReservationKey({ ownerId, id }: ReservationKey): string {
  return `${ownerId} ${id}`;
}

function dropOldest(remembered: Set<string> | Map<string, unknown>): void {
  const oldest = remembered.size > MAX_ENDED ? remembered.keys().next().value : undefined;
  if (oldest !== undefined) remembered.delete(oldest);
}

/** Whether no reader sees a difference: within a revision, a grant never changes. */
function isSame(known: Reservation | undefined, next: Reservation | undefined): boolean {
  if (known?.id !== next?.id || known?.state !== next?.state || known?.revision !== next?.revision) return false;
  if (known?.state !== "waiting" || next?.state !== "waiting") return true;
  const [before, after] = [known.because, next.because];
  if (before?.queue !== after?.queue || before?.quota?.resource !== after?.quota?.resource) return false;
  return before?.code === after?.code && before?.pool === after?.pool && before?.requested === after?.requested;
}
