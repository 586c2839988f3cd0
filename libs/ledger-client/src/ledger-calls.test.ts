import { FaultError } from "@muster/faults";
import { muster } from "@muster/proto";
import { expect, it } from "vitest";
import { ledgerCalls } from "./ledger-calls.ts";

const { CheckReservationReply, GetReservationReply, ListReservationsReply, ReserveReply, UnreserveReply } =
  muster.reservation.v1;
const { Reservation, WaitReason } = muster.reservation.v1;
const NEEDS = [{ component: "driver", pool: "p" }];
const BECAUSE = { code: "POOL_AVAILABILITY", pool: "p", requested: 1, available: 0, ahead: 2 };

/** A ledger in which `echo` waits; it records each request with its options. */
function opened(isFree = false) {
  const asked: { readonly request: object; readonly options: object | undefined }[] = [];
  const answer = <Reply>(reply: Reply) => {
    return (request: object, options?: object): Promise<Reply> => {
      asked.push({ request, options });
      return Promise.resolve(reply);
    };
  };
  const owner = muster.common.v1.Owner.create({ kind: "session", id: "echo" });
  const reservation = Reservation.create({ id: "r-1", owner, because: WaitReason.create(BECAUSE) });
  const ledger = ledgerCalls(
    {
      reserve: answer(ReserveReply.create({ reservation })),
      checkReservation: answer(CheckReservationReply.create({ because: isFree ? undefined : reservation.because })),
      getReservation: ({ owner }) =>
        owner?.id === "echo"
          ? Promise.resolve(GetReservationReply.create({ reservation }))
          : Promise.reject(new FaultError({ code: "not_found", kind: "reservation", id: owner?.id ?? "" })),
      unreserve: ({ reservationId }) => Promise.resolve(UnreserveReply.create({ released: reservationId === "r-1" })),
      listReservations: answer(ListReservationsReply.create({ reservations: [reservation] })),
    },
    "session",
  );
  return { ledger, asked };
}

it("requests machines or a place in the queue, within the time and limits of the caller", async () => {
  const { ledger, asked } = opened();
  const reserved = await ledger.reserve("echo", NEEDS, { priority: 3, concurrencyLimit: 2, timeoutMs: 7 });
  expect(reserved).toMatchObject({ id: "r-1", ownerId: "echo", state: "waiting", because: BECAUSE });
  const owner = { kind: "session", id: "echo" };
  expect(asked).toMatchObject([
    { request: { owner, needs: NEEDS, wait: true, priority: 3, concurrencyLimit: 2 }, options: { timeoutMs: 7 } },
  ]);
});

it("returns why a request would wait, and nothing where it would be granted", async () => {
  expect(await opened().ledger.check("echo", NEEDS)).toEqual(BECAUSE);
  expect(await opened(true).ledger.check("echo", NEEDS)).toBeUndefined();
});

it("returns whether a release ended the reservation, and what an owner has", async () => {
  const { ledger } = opened();
  expect([await ledger.release("echo", "r-1"), await ledger.release("echo", "r-0")]).toEqual([true, false]);
  expect(await ledger.ask("echo")).toMatchObject({ id: "r-1" });
  expect(await ledger.ask("other")).toBeUndefined();
});
