import { client, type NatsBus } from "@muster/bus";
import { nsFromMs } from "@muster/leases";
import type { LeaseType } from "@muster/leases/data";
import { ReservationService } from "@muster/proto";
import type { Cluster } from "../adapters/cluster.ts";
import { DEBUG_WORKLOAD } from "./debug.ts";
import { kubernetesWorkload } from "./kubernetes.ts";
import { machineWorkload } from "./machine.ts";
import { containerWorkload, type NameOf } from "./container.ts";
import { networkWorkload } from "./network.ts";
import { volumeWorkload } from "./volume.ts";
import type { Workload } from "./workload.ts";
import { zdbWorkload } from "./zdb.ts";

/** What makes each type that this engine serves; without a cluster those that live in none. A new one is a file and a line here. */
export function makeWorkloads(bus: NatsBus, cluster: Cluster | undefined, nameOf: NameOf): readonly Workload[] {
  const each: Readonly<Record<LeaseType, Workload | undefined>> = {
    debug: DEBUG_WORKLOAD,
    machine: machineWorkload(client(bus, ReservationService)),
    network: cluster && networkWorkload(cluster),
    volume: cluster && volumeWorkload(cluster),
    container: cluster && containerWorkload(cluster, nameOf),
    zdb: cluster && zdbWorkload(cluster),
    kubernetes: cluster && kubernetesWorkload(cluster, () => nsFromMs(Date.now())),
  };
  return Object.values(each).filter((workload) => workload !== undefined);
}
