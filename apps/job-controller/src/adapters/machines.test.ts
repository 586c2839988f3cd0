import type { NatsBus } from "@muster/bus";
import { FaultError, type Fault } from "@muster/faults";
import { openLedgerClient, type ReservationCalls } from "@muster/ledger-client";
import { muster } from "@muster/proto";
import { describe, expect, it } from "vitest";
import { getUnitOwnerId, type RequestUnit } from "../domain/build-units.ts";
import { makeMachines, OWNER_KIND } from "./machines.ts";

const {
  Machine,
  Need,
  NodeSelection,
  Reservation,
  ReservationGranted,
  ReservationReleased,
  ReservationPreempted,
  Preemption,
  ReservationState,
} = muster.reservation.v1;
type Reservation = muster.reservation.v1.Reservation;

const EVENTS = { granted: ReservationGranted, released: ReservationReleased, preempted: ReservationPreempted } as const;
const ID = "train-0a1b2c3d4e5f";
const UNIT: RequestUnit = { id: ID, needs: [{ component: "worker-0", pool: "gpu" }], because: "gang" };
const GOING_ON = new AbortController().signal;

const SHARED = { cpu: 500 };
const SHARED_UNIT: RequestUnit = { ...UNIT, needs: [{ component: "worker-0", pool: "gpu", shared: SHARED }] };

/** Returns the reservation as a ledger with shares keeps it. */
function inPart(whole: Reservation): Reservation {
  const shared = { requests: SHARED };
  return Reservation.create({
    ...whole,
    needs: whole.needs.map((need) => ({ ...need, shared })),
    machines: whole.machines.map((machine) => ({ ...machine, shared })),
  });
}

function reservation(id: string, state: "granted" | "waiting", owner = ID): Reservation {
  const granted = state === "granted";
  return Reservation.create({
    id,
    owner: { kind: "job", id: owner },
    needs: [Need.create({ component: "worker-0", pool: "gpu" })],
    state: granted ? ReservationState.RESERVATION_STATE_GRANTED : ReservationState.RESERVATION_STATE_WAITING,
    machines: granted ? [Machine.create({ component: "worker-0", pool: "gpu", node: "node-a" })] : [],
    createdAtMs: 1000,
    sequence: Number(id),
    because: granted
      ? undefined
      : {
          code: "POOL_AVAILABILITY",
          pool: "gpu",
          requested: 1,
          parts: 0,
          available: 0,
          nodes: "",
          topology: undefined,
          quota: undefined,
          queue: "",
          ahead: 2,
        },
  });
}

/** Opens machines on a ledger with scripted state and answers. */
async function opened(clock = { now: 5000, elapsed: 0 }) {
  const ledger = new Map<string, Reservation>();
  const recorded: string[] = [];
  const listeners: ((event: string, payload: Uint8Array) => void)[] = [];
  const answer: { reserve: Reservation | Fault; list: () => Promise<void> } = {
    reserve: reservation("1", "waiting"),
    list: () => Promise.resolve(),
  };
  const bus = {
    listen: (pattern: string, handler: (message: { payload: Uint8Array }) => void) => {
      listeners.push((event, payload) => {
        if (pattern.endsWith(event)) handler({ payload });
      });
      return Promise.resolve({ [Symbol.asyncDispose]: () => Promise.resolve() });
    },
  } as unknown as Pick<NatsBus, "listen">;
  const calls = {
    reserve: ({ beyondMinimum }: { beyondMinimum?: boolean }) => {
      recorded.push(beyondMinimum === true ? "reserve beyond the minimum" : "reserve");
      return "code" in answer.reserve
        ? Promise.reject(new FaultError(answer.reserve))
        : Promise.resolve({ reservation: answer.reserve });
    },
    unreserve: ({ reservationId }: { reservationId: string }) => {
      recorded.push(`unreserve ${reservationId}`);
      return Promise.resolve({});
    },
    acceptPreemption: ({ owner, reservationId }: { owner: { id: string }; reservationId: string }) => {
      recorded.push(`accept ${reservationId}`);
      return Promise.resolve({ accepted: true, reservation: ledger.get(owner.id) });
    },
    requeue: ({ owner, reservationId }: { owner: { id: string }; reservationId: string }) => {
      recorded.push(`requeue ${reservationId}`);
      return Promise.resolve({ reservation: ledger.get(owner.id) });
    },
    getReservation: ({ owner }: { owner: { id: string } }) => {
      const there = ledger.get(owner.id);
      return there === undefined
        ? Promise.reject(new FaultError({ code: "not_found", kind: "reservation", id: owner.id }))
        : Promise.resolve({ reservation: there });
    },
    listReservations: async ({ limit, continue: after }: { limit: number; continue: string }) => {
      const ids = [...ledger.keys()].sort().filter((id) => id > after);
      const page = ids.slice(0, limit);
      const found = page.flatMap((id) => ledger.get(id) ?? []);
      await answer.list();
      const nextSequence = 1 + Math.max(0, ...[...ledger.values()].map(({ sequence }) => sequence));
      return { reservations: found, nextSequence, continue: ids.length > page.length ? (page.at(-1) ?? "") : "" };
    },
  } as unknown as ReservationCalls;
  const elapsedMs = (): number => clock.elapsed;
  const machines = makeMachines({
    ledger: await openLedgerClient({ bus, calls, ownerKind: OWNER_KIND, groupOf: getUnitOwnerId, elapsedMs }),
    calls,
    now: () => clock.now,
    elapsedMs,
    changed: (ownerId) => recorded.push(`changed ${ownerId}`),
    listed: () => recorded.push("listed"),
  });
  return {
    machines,
    ledger,
    answer,
    recorded,
    hint: (name: keyof typeof EVENTS, of: Reservation) => {
      const event = EVENTS[name];
      for (const notify of listeners) notify(name, event.encode({ reservation: of }).finish());
    },
  };
}

/** The state of the only unit. */
function stateOf({ machines }: Awaited<ReturnType<typeof opened>>): string | undefined {
  return machines.unitsOf(ID)[0]?.state;
}

describe("machines of jobs", () => {
  it("are unknown until the first list, and then none", async () => {
    const world = await opened();
    expect(stateOf(world)).toBe("unknown");
    await world.machines.refresh(GOING_ON);
    expect(stateOf(world)).toBeUndefined();
    expect(world.recorded).toEqual(["listed"]);
  });

  it("stay unknown if the first list failed, whatever it had returned", async () => {
    const world = await opened();
    world.answer.list = () =>
      Promise.reject(new FaultError({ code: "unavailable", dependency: "ledger", retryAfterMs: 1 }));
    await expect(world.machines.refresh(GOING_ON)).rejects.toMatchObject({ fault: { code: "unavailable" } });
    expect(stateOf(world)).toBe("unknown");
  });

  it("are read to the last page", async () => {
    const world = await opened();
    for (let index = 0; index < 1001; index += 1)
      world.ledger.set(`job-${index}`, reservation("1", "granted", `job-${index}`));
    await world.machines.refresh(GOING_ON);
    expect(world.machines.ownerIds().size).toBe(1001);
  });

  it("are outside the minimum of the job only if it has grown", async () => {
    const world = await opened();
    await world.machines.refresh(GOING_ON);
    for (const because of ["gang", "machine-lost", "scaled-up"] as const)
      await world.machines.reserve({ ...UNIT, because }, 0);
    expect(world.recorded.filter((each) => each.startsWith("reserve"))).toEqual([
      "reserve",
      "reserve",
      "reserve beyond the minimum",
    ]);
  });

  it("wait with the ledger's reason, and are granted after its notification", async () => {
    const world = await opened();
    await world.machines.refresh(GOING_ON);
    await world.machines.reserve(UNIT, 0);
    expect(world.machines.unitsOf(ID)[0]).toMatchObject({
      state: "waiting",
      because: { text: "1 machine of pool gpu is needed, and none is free" },
      sinceMs: 5000,
    });
    world.hint("granted", reservation("1", "granted"));
    expect(world.machines.unitsOf(ID)[0]).toMatchObject({ state: "granted", nodes: new Map([["worker-0", "node-a"]]) });
  });

  it("are preempted as the ledger publishes and answers, and wait again with their needs", async () => {
    const world = await opened();
    await world.machines.refresh(GOING_ON);
    await world.machines.accept(ID);
    await world.machines.requeue(ID);
    expect(world.recorded).toEqual(["listed"]);
    const granted = reservation("1", "granted");
    world.hint("granted", granted);
    const beneficiary = { kind: "job", id: "urgent-1" };
    const stateWith = (accepted: boolean, revision: number): Reservation => {
      const taken = { beneficiary, queue: "a", reason: "RECLAIM", deadlineMs: 9000, accepted };
      return Reservation.create({ ...granted, revision, preemption: Preemption.create(taken) });
    };
    world.hint("preempted", stateWith(false, 1));
    const preemption = { beneficiary, queue: "a", reason: "RECLAIM", deadlineMs: 9000, accepted: false };
    expect(world.machines.unitsOf(ID)[0]).toMatchObject({ state: "granted", preemption });
    world.ledger.set(ID, stateWith(true, 2));
    await world.machines.accept(ID);
    expect(world.machines.unitsOf(ID)[0]).toMatchObject({ preemption: { accepted: true } });
    world.ledger.set(ID, Reservation.create({ ...reservation("1", "waiting"), revision: 3, preemptedFor: "9" }));
    await world.machines.requeue(ID);
    expect(world.machines.unitsOf(ID)[0]).toMatchObject({
      state: "waiting",
      isRequeued: true,
      components: ["worker-0"],
    });
    expect(world.recorded.filter((each) => !each.startsWith("changed"))).toEqual(["listed", "accept 1", "requeue 1"]);
  });

  it("have waited since this process first observed their wait, whatever the clocks of the ledger and of the day show", async () => {
    const clock = { now: 5_000_000, elapsed: 70 };
    const world = await opened(clock);
    const waitedMs = (): number | undefined => {
      const [unit] = world.machines.unitsOf(ID);
      return unit?.state === "waiting" ? clock.now - unit.sinceMs : undefined;
    };
    // The ledger's clock lags by more than an hour.
    world.ledger.set(ID, { ...reservation("1", "waiting"), createdAtMs: 1000 });
    await world.machines.refresh(GOING_ON);
    expect(waitedMs()).toBe(0);
    clock.elapsed += 30_000;
    clock.now -= 3_600_000;
    await world.machines.refresh(GOING_ON);
    expect(waitedMs()).toBe(30_000);
    world.ledger.set(ID, reservation("2", "waiting"));
    await world.machines.refresh(GOING_ON);
    expect(waitedMs()).toBe(0);
  });

  it("are refused if they can never be granted, and the caller may request them again", async () => {
    const world = await opened();
    await world.machines.refresh(GOING_ON);
    world.answer.reserve = { code: "pool_unknown", pool: "gpu" };
    await world.machines.reserve(UNIT, 0);
    expect(world.machines.unitsOf(ID)[0]).toMatchObject({
      state: "refused",
      because: { code: "POOL_UNKNOWN" },
      sinceMs: 5000,
    });
    await world.machines.release(ID);
    expect(world.recorded.filter((each) => each.startsWith("unreserve"))).toEqual([]);
    expect(world.machines.ownerIds()).toEqual(new Set());
  });

  it.each([
    [undefined, /machines at most/],
    [{ cpu: 9000 }, /room for 0 of the 1 requested parts and machines when nothing else runs/],
  ])("name the capacity of a pool that is too small for a part with %j", async (shared, text) => {
    const world = await opened();
    await world.machines.refresh(GOING_ON);
    world.answer.reserve = { code: "pool_capacity", pool: "gpu", requested: 1, capacity: 0 };
    await world.machines.reserve(
      { ...UNIT, needs: [{ component: "worker-0", pool: "gpu", ...(shared && { shared }) }] },
      0,
    );
    expect(world.machines.unitsOf(ID)[0]).toMatchObject({
      state: "refused",
      because: { code: "POOL_CAPACITY", text: expect.stringMatching(text) as string },
    });
  });

  it("are refused for a limit of the ledger, with the limit, and not for a busy ledger", async () => {
    const world = await opened();
    await world.machines.refresh(GOING_ON);
    const exceeded = { code: "limit_exceeded", what: "number of node selections of one request", limit: 16 } as const;
    world.answer.reserve = { ...exceeded, retryAfterMs: 500 };
    await expect(world.machines.reserve(UNIT, 0)).rejects.toThrow("over its limit");
    expect(stateOf(world)).not.toBe("refused");
    world.answer.reserve = { ...exceeded, retryAfterMs: 0 };
    await world.machines.reserve(UNIT, 0);
    expect(world.machines.unitsOf(ID)[0]).toMatchObject({
      state: "refused",
      because: { code: "LIMIT_EXCEEDED", text: "number of node selections of one request is over its limit of 16" },
    });
  });

  it("are those of the ledger if these differ from the request", async () => {
    const world = await opened();
    await world.machines.refresh(GOING_ON);
    world.ledger.set(ID, reservation("3", "granted"));
    world.answer.reserve = { code: "reservation_differs", ownerKind: "job", ownerId: ID };
    await world.machines.reserve(UNIT, 0);
    expect(stateOf(world)).toBe("granted");
  });

  it("are parts of machines if the ledger has granted parts", async () => {
    const world = await opened();
    await world.machines.refresh(GOING_ON);
    world.answer.reserve = inPart(reservation("1", "waiting"));
    await world.machines.reserve(SHARED_UNIT, 0);
    expect(world.machines.unitsOf(ID)[0]).toMatchObject({ state: "waiting", shares: new Map([["worker-0", SHARED]]) });
    expect(world.machines.unitsOf(ID)[0]).not.toHaveProperty("dropsConstraints");
    world.hint("granted", inPart(reservation("1", "granted")));
    expect(world.machines.unitsOf(ID)[0]).toMatchObject({ state: "granted", shares: new Map([["worker-0", SHARED]]) });
  });

  it("are marked while the ledger drops shares, so that no request is repeated because of them", async () => {
    const world = await opened();
    await world.machines.refresh(GOING_ON);
    await world.machines.reserve(UNIT, 0);
    expect(world.machines.unitsOf(ID)[0]).not.toHaveProperty("dropsConstraints");
    await world.machines.reserve(SHARED_UNIT, 0);
    expect(world.machines.unitsOf(ID)[0]).toMatchObject({ state: "waiting", dropsConstraints: true });
    expect(world.machines.unitsOf(ID)[0]).not.toHaveProperty("shares");
    world.answer.reserve = inPart(reservation("2", "waiting"));
    await world.machines.reserve(SHARED_UNIT, 0);
    expect(world.machines.unitsOf(ID)[0]).not.toHaveProperty("dropsConstraints");
  });

  it("have the queue of their reservation, and are marked while the ledger drops queues", async () => {
    const world = await opened();
    await world.machines.refresh(GOING_ON);
    await world.machines.reserve({ ...UNIT, queue: "team-a" }, 0);
    expect(world.machines.unitsOf(ID)[0]).toMatchObject({ state: "waiting", dropsConstraints: true });
    world.answer.reserve = { ...reservation("2", "waiting"), queue: "team-a" };
    await world.machines.reserve({ ...UNIT, queue: "team-a" }, 0);
    expect(world.machines.unitsOf(ID)[0]).toMatchObject({ queue: "team-a" });
    expect(world.machines.unitsOf(ID)[0]).not.toHaveProperty("dropsConstraints");
    world.hint("granted", { ...reservation("2", "granted"), queue: "team-a" });
    expect(world.machines.unitsOf(ID)[0]).toMatchObject({ state: "granted", queue: "team-a" });
  });

  it("are marked while the ledger drops the minimum of a node selection", async () => {
    const world = await opened();
    await world.machines.refresh(GOING_ON);
    const selection = { terms: [], tolerations: [], minimum: { cpu: 500 } };
    const unit = { ...UNIT, needs: [{ component: "worker-0", pool: "gpu", selection }] };
    const withSelection = (id: string, minimum: Readonly<Record<string, number>>): Reservation => {
      const kept = reservation(id, "waiting");
      return Reservation.create({
        ...kept,
        needs: kept.needs.map((need) => ({ ...need, nodeSelection: 1 })),
        nodeSelections: [NodeSelection.create({ minimum })],
      });
    };
    world.answer.reserve = withSelection("1", {});
    await world.machines.reserve(unit, 0);
    expect(world.machines.unitsOf(ID)[0]).toMatchObject({ state: "waiting", dropsConstraints: true });
    world.answer.reserve = withSelection("2", { cpu: 500 });
    await world.machines.reserve(unit, 0);
    expect(world.machines.unitsOf(ID)[0]).not.toHaveProperty("dropsConstraints");
    expect(world.machines.unitsOf(ID)[0]).toMatchObject({ selections: new Map([["worker-0", selection]]) });
  });

  it("stay unchanged without an answer", async () => {
    const world = await opened();
    await world.machines.refresh(GOING_ON);
    world.answer.reserve = { code: "unavailable", dependency: "ledger", retryAfterMs: 1 };
    await expect(world.machines.reserve(UNIT, 0)).rejects.toMatchObject({ fault: { code: "unavailable" } });
    expect(stateOf(world)).toBeUndefined();
  });

  it("are released by the number in the ledger, even if it is unknown here", async () => {
    const world = await opened();
    world.ledger.set(ID, reservation("9", "granted"));
    await world.machines.release(ID);
    expect(world.recorded).toContain("unreserve 9");
  });

  it("do not reappear by a grant that is reported after their release", async () => {
    const world = await opened();
    await world.machines.refresh(GOING_ON);
    world.answer.reserve = reservation("1", "granted");
    await world.machines.reserve(UNIT, 0);
    await world.machines.release(ID);
    world.hint("granted", reservation("1", "granted"));
    expect(stateOf(world)).toBeUndefined();
  });

  it("do not reappear by a list that was read before their release", async () => {
    const world = await opened();
    world.ledger.set(ID, reservation("1", "granted"));
    world.answer.list = () => {
      world.hint("released", reservation("1", "granted"));
      return Promise.resolve();
    };
    await world.machines.refresh(GOING_ON);
    expect(stateOf(world)).toBeUndefined();
  });

  it("are unknown to a new leader until a list that began after its lead", async () => {
    const world = await opened();
    world.ledger.set(ID, reservation("1", "granted"));
    await world.machines.refresh(GOING_ON);
    const reading = Promise.withResolvers<undefined>();
    world.answer.list = () => reading.promise;
    const early = world.machines.refresh(GOING_ON);
    world.machines.invalidate();
    expect(stateOf(world)).toBe("unknown");
    reading.resolve(undefined);
    await early;
    expect(stateOf(world)).toBe("unknown");
    await world.machines.refresh(GOING_ON);
    expect(stateOf(world)).toBe("granted");
    expect(world.recorded.filter((each) => each === "listed")).toHaveLength(2);
  });
});
