import { DescribeSubnetsCommand, type EC2Client } from "@aws-sdk/client-ec2";
import { throwFault } from "@muster/faults";
import type { Subnet } from "./plan-subnets.ts";

/** Free addresses change with every instance of the account. */
const KEPT_MS = 150_000;

export type SubnetCache = {
  /** Lists the subnets as of at most 150 s ago, or an older list if the service does not answer. */
  list(signal: AbortSignal): Promise<readonly Subnet[]>;
  /** Makes the next `list` read again. */
  refresh(): void;
};

export function makeSubnetCache(client: EC2Client, ids: readonly string[], now: () => number): SubnetCache {
  let known: { readonly subnets: readonly Subnet[]; readonly atMs: number } | undefined;
  let due = true;
  return {
    list: async (signal) => {
      if (known !== undefined && !due && now() - known.atMs < KEPT_MS) return known.subnets;
      try {
        const { Subnets = [] } = await client.send(new DescribeSubnetsCommand({ SubnetIds: [...ids] }), {
          abortSignal: signal,
        });
        const subnets = Subnets.map((subnet) => ({
          id: subnet.SubnetId ?? "",
          zone: subnet.AvailabilityZone ?? "",
          freeAddresses: subnet.AvailableIpAddressCount ?? 0,
          isPublic: subnet.MapPublicIpOnLaunch ?? false,
        }));
        if (subnets.length === 0) throwFault({ code: "not_found", kind: "subnets", id: ids.join(", ") });
        known = { subnets, atMs: now() };
        due = false;
      } catch (error) {
        if (known === undefined) throw error;
      }
      return known.subnets;
    },
    refresh: () => {
      due = true;
    },
  };
}
