import { makeClient, type Bus } from "@muster/bus";
import { muster, subjects } from "@muster/proto";
import type { ServiceCalls } from "../kinds/kind.ts";

const { SessionEventRecorded } = muster.session.v1;

/** Calls the services over NATS. */
export function makeBusCalls(bus: Bus): ServiceCalls {
  return {
    client: (service) => makeClient(bus, service),
    onSessionEvent: (listener) =>
      bus.listen(subjects.anySessionEventRecorded, ({ payload }) => {
        listener(SessionEventRecorded.decode(payload).name);
      }),
  };
}
