import { openTrail, type Bus } from "@muster/bus";
import { muster, subjects } from "@muster/proto";
import { toEvent, toWireEvent } from "./messages.ts";
import type { History } from "../lead/records.ts";

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
