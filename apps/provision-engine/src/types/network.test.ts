import { expect, it } from "vitest";
import { buildNetworkNamespace, buildNetworkPolicy } from "./network.ts";

it("keeps pods of a network from their nodes", () => {
  expect(buildNetworkNamespace("muster-x").metadata.labels).toMatchObject({
    "pod-security.kubernetes.io/enforce": "baseline",
  });
});

const inside = { from: [{ podSelector: {} }] };

it.each([
  [[], [inside]],
  [
    [80, 53, 80],
    [
      inside,
      {
        ports: [
          { port: 80, protocol: "TCP" },
          { port: 80, protocol: "UDP" },
          { port: 53, protocol: "TCP" },
          { port: 53, protocol: "UDP" },
        ],
      },
    ],
  ],
])("admits those of the network everywhere, and others only on the ports %o", (ports, ingress) => {
  expect(buildNetworkPolicy("muster-x", ports).spec).toEqual({ podSelector: {}, policyTypes: ["Ingress"], ingress });
});
