import { consumeEvents, type NatsBus } from "@muster/bus";
import { muster, streams, subjects } from "@muster/proto";

/** Records the events of all reservations, each with its kind and id. */
export async function followNews(bus: NatsBus): Promise<AsyncDisposable & { readonly published: string[] }> {
  const published: string[] = [];
  const { ReservationGranted, ReservationReleased } = muster.reservation.v1;
  const kinds = [
    ["granted", subjects.anyReservationGranted, ReservationGranted],
    ["released", subjects.anyReservationReleased, ReservationReleased],
  ] as const;
  const stack = new AsyncDisposableStack();
  for (const [kind, subject, type] of kinds) {
    const subscription = { stream: streams.events.name, durable: kind, subject, maxInFlight: 10, ackWaitMs: 5000 };
    stack.use(
      await consumeEvents(bus, { ...subscription, area: "test" }, type, ({ reservation }) => {
        published.push(`${kind} ${reservation?.id ?? ""}`);
        return Promise.resolve();
      }),
    );
  }
  return { published, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}
