import { openTrail, type Bus, type Trail } from "@muster/bus";
import { muster, subjects } from "@muster/proto";
import type { LeaseEvent } from "../domain/lease.ts";
import { toEvent, toWireEvent } from "./messages.ts";

/** The trail of what happened to leases. */
export type History = Trail<LeaseEvent>;

export function openHistory(bus: Bus): History {
  return openTrail(bus, {
    type: muster.provision.v1.LeaseEvent,
    subjectOf: subjects.leaseAudited,
    keyOf: ({ lease }) => lease,
    idOf: ({ id }) => id,
    toWire: toWireEvent,
    fromWire: toEvent,
  });
}
