import type { BootRequest } from "../src/providers/provider.ts";

let boots = 0;

/** Builds an order for a node with a new name. */
export function buildBoot(more: Partial<BootRequest> = {}): BootRequest {
  boots += 1;
  return {
    nodeName: `elastic-${boots}`,
    pool: "elastic",
    instanceType: "large",
    image: "",
    spot: false,
    zone: undefined,
    gpus: 0,
    volumeGib: undefined,
    privateIpOnly: false,
    labels: { pool: "elastic" },
    taints: [{ key: "muster.dev/unopened", effect: "NoSchedule" }],
    ...more,
  };
}
