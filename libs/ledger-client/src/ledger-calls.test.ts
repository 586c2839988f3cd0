import { FaultError } from "@muster/faults";
import { enums, muster } from "@muster/proto";
import { expect, it } from "vitest";
import { makeLedgerCalls } from "./ledger-calls.ts";
import { readReservation } from "./reservation.ts";

const { CheckReservationReply, GetReservationReply, ListReservationsReply, ReserveReply, UnreserveReply } =
  muster.reservation.v1;
const { AcceptPreemptionReply, RequeueReply, Reservation, WaitReason } = muster.reservation.v1;
const NEEDS = [{ component: "driver", pool: "p" }];
const BECAUSE = { code: "POOL_AVAILABILITY", pool: "p", requested: 1, parts: 0, available: 0, ahead: 2 };

type Machines = Pick<muster.reservation.v1.Reservation.$Properties, "needs" | "machines">;

/** A ledger in which `echo` waits, or has these machines; it records each request with its options. */
function opened(isFree = false, granted?: Machines) {
  const asked: { readonly request: object; readonly options: object | undefined }[] = [];
  const answer = <Reply>(reply: Reply) => {
    return (request: object, options?: object): Promise<Reply> => {
      asked.push({ request, options });
      return Promise.resolve(reply);
    };
  };
  const owner = muster.common.v1.Owner.create({ kind: "session", id: "echo" });
  const waiting = { id: "r-1", owner, because: WaitReason.create(BECAUSE) };
  const state = enums.ReservationState.numbers.GRANTED;
  // Decoded, as if received.
  const reservation = Reservation.decode(
    Reservation.encode(granted === undefined ? waiting : { ...waiting, ...granted, state }).finish(),
  );
  const ledger = makeLedgerCalls(
    {
      reserve: answer(ReserveReply.create({ reservation })),
      checkReservation: answer(CheckReservationReply.create({ because: isFree ? undefined : reservation.because })),
      getReservation: ({ owner }) =>
        owner?.id === "echo"
          ? Promise.resolve(GetReservationReply.create({ reservation }))
          : Promise.reject(new FaultError({ code: "not_found", kind: "reservation", id: owner?.id ?? "" })),
      unreserve: ({ reservationId }) => Promise.resolve(UnreserveReply.create({ released: reservationId === "r-1" })),
      acceptPreemption: answer(AcceptPreemptionReply.create({ accepted: true, reservation })),
      requeue: answer(RequeueReply.create({ reservation })),
      listReservations: answer(ListReservationsReply.create({ reservations: [reservation] })),
    },
    "session",
  );
  return { ledger, asked };
}

it("requests machines or a position in the queue, within the time and limits of the caller", async () => {
  const { ledger, asked } = opened();
  const reserved = await ledger.reserve("echo", NEEDS, { priority: 3, concurrencyLimit: 2, timeoutMs: 7 });
  expect(reserved).toMatchObject({ id: "r-1", ownerId: "echo", state: "waiting", because: BECAUSE });
  const owner = { kind: "session", id: "echo" };
  expect(asked).toMatchObject([
    { request: { owner, needs: NEEDS, wait: true, priority: 3, concurrencyLimit: 2 }, options: { timeoutMs: 7 } },
  ]);
});

it("returns why a request would wait, and undefined if it would be granted", async () => {
  expect(await opened().ledger.check("echo", NEEDS)).toEqual(BECAUSE);
  const { ledger, asked } = opened(true);
  expect(await ledger.check("echo", NEEDS, { priority: 3 })).toBeUndefined();
  expect(asked).toMatchObject([{ request: { needs: NEEDS, priority: 3 } }]);
});

it("returns whether a release ended the reservation, and the reservation of an owner", async () => {
  const { ledger } = opened();
  expect([await ledger.release("echo", "r-1"), await ledger.release("echo", "r-0")]).toEqual([true, false]);
  expect(await ledger.ask("echo")).toMatchObject({ id: "r-1" });
  expect(await ledger.ask("other")).toBeUndefined();
});

it("sends the requests of a shared need, reads the grant, and reads an absent share as a whole machine", async () => {
  const shared = { cpu: 500, memory: 2 ** 40, "nvidia.com/gpu": 1 };
  const [part, whole] = [
    { component: "worker-0", pool: "p", shared },
    { component: "worker-1", pool: "p" },
  ];
  const { asked, ledger } = opened(false, {
    needs: [{ ...part, shared: { requests: shared } }, whole],
    machines: [
      { ...part, node: "n", shared: { requests: shared } },
      { ...whole, node: "m" },
    ],
  });
  const reserved = await ledger.reserve("echo", [part, whole]);
  await ledger.check("echo", [part, whole]);
  expect(asked.map(({ request }) => request)).toMatchObject([
    { needs: [{ ...part, shared: { requests: shared } }, whole] },
    { needs: [{ ...part, shared: { requests: shared } }, whole] },
  ]);
  expect(reserved.needs).toStrictEqual([part, whole]);
  expect(reserved).toMatchObject({
    state: "granted",
    machines: [
      { ...part, node: "n" },
      { ...whole, node: "m" },
    ],
  });
});

it("names the queue in a request, and reads it and the missing quota", async () => {
  const { ledger, asked } = opened();
  expect(await ledger.reserve("echo", NEEDS, { queue: "team-a" })).not.toHaveProperty("queue");
  expect(asked).toMatchObject([{ request: { queue: "team-a" } }]);
  const quota = { queue: "company", pool: "p", resource: "cpu", requested: 4000, available: 1000 };
  const owner = { kind: "session", id: "echo" };
  const because = { ...BECAUSE, code: "WAITING_FOR_QUOTA", queue: "team-a", quota };
  const message = Reservation.decode(Reservation.encode({ id: "r-1", owner, queue: "team-a", because }).finish());
  const { available: _, ...shortage } = quota;
  expect(readReservation(message, "session")).toMatchObject({
    queue: "team-a",
    because: { code: "WAITING_FOR_QUOTA", queue: "team-a", quota: shortage },
  });
});

it("states whether work may be preempted and how long it takes to end, and reads and answers a preemption", async () => {
  const { ledger, asked } = opened();
  await ledger.reserve("echo", NEEDS, { notPreemptible: true, beyondMinimum: true, graceMs: 40_000 });
  expect(await ledger.acceptPreemption("echo", "r-1")).toMatchObject({ id: "r-1" });
  expect(await ledger.requeue("echo", "r-1", { timeoutMs: 5 })).toMatchObject({ id: "r-1" });
  const named = { owner: { kind: "session", id: "echo" }, reservationId: "r-1" };
  expect(asked).toMatchObject([
    { request: { notPreemptible: true, beyondMinimum: true, graceMs: 40_000 }, options: {} },
    { request: named },
    { request: named, options: { timeoutMs: 5 } },
  ]);
  const preemption = {
    beneficiary: { kind: "job", id: "other" },
    beneficiaryId: "r-9",
    queue: "a",
    reason: "RECLAIM",
    atMs: 1,
    deadlineMs: 9,
    accepted: true,
  };
  const state = enums.ReservationState.numbers.GRANTED;
  const message = {
    id: "r-1",
    owner: { kind: "session", id: "echo" },
    state,
    revision: 4,
    preemption,
    preemptedFor: "r-0",
  };
  expect(readReservation(Reservation.decode(Reservation.encode(message).finish()), "session")).toMatchObject({
    revision: 4,
    preemption: { queue: "a", reason: "RECLAIM", deadlineMs: 9, accepted: true },
    preemptedFor: "r-0",
  });
});
