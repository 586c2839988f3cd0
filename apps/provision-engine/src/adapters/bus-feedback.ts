import { publishEvent, type Bus } from "@muster/bus";
import { muster, subjects } from "@muster/proto";
import type { TellDeps } from "../lead/tell-lease.ts";
import { toWireResult } from "./messages.ts";

/** Tells over NATS; an answer that is sent again is dropped by the stream within its window. */
export function feedbackOver(bus: Bus, engine: string): TellDeps["feedback"] {
  const { LeaseAnswered } = muster.provision.v1;
  return async ({ id, createdNs, number, result, deleted }) => {
    const message = { engine, id, result: result === undefined ? null : toWireResult(result), deleted };
    await publishEvent(bus, subjects.leaseAnswered(id), LeaseAnswered, message, {
      messageId: `${engine}.${id}.${createdNs ?? ""}.${number}`,
    });
  };
}
