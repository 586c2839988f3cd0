import type { Boot } from "../src/providers/provider.ts";

let boots = 0;

/** An order for a node of a name that was never there before. */
export function buildBoot(more: Partial<Boot> = {}): Boot {
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
