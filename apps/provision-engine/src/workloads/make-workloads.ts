import { client, type NatsBus } from "@muster/bus";
import { ReservationService } from "@muster/proto";
import { DEBUG_WORKLOAD } from "./debug.ts";
import { machineWorkload } from "./machine.ts";
import type { Workload } from "./workload.ts";

/** What makes each type that this engine serves. A new one is a file and a line here. */
export function makeWorkloads(bus: NatsBus): readonly Workload[] {
  return [DEBUG_WORKLOAD, machineWorkload(client(bus, ReservationService))];
}
