import { expect, it } from "vitest";
import { CONTAINER, buildDeployment } from "./container.ts";
import { ZDB, buildZdbSet } from "./zdb.ts";
import { describeNodes, type LeaseNodes } from "./pods.ts";

const place = { name: "lease-1-1", namespace: "muster-x" };
const labels = { lease: "1-1" };
const store = { image: "zdb:1", command: undefined, port: 9900, cpus: 1, memoryBytes: 1, diskBytes: 1 };

function podsOn(nodes: LeaseNodes) {
  const container = CONTAINER.read('{"image":"web:1","capacity":{"cpu":1,"memory":1024}}');
  const zdb = ZDB.read('{"size":1,"mode":"seq","disk_type":"ssd","password":"p"}');
  if (!container.ok || !zdb.ok) throw new Error("the test's own data are wrong");
  return [
    buildDeployment({ place, labels, nodes, data: container.value, claimOf: (id) => id }),
    buildZdbSet({ place, labels, nodes, data: zdb.value, store }),
  ].map(({ spec }) => spec.template.spec);
}

it.each<[string, LeaseNodes, object[], string]>([
  [
    "no machine of a pool",
    { poolLabel: "pool", pools: [] },
    [{ matchExpressions: [{ key: "pool", operator: "DoesNotExist" }] }],
    'it runs on nodes without the label "pool" (PROVISION_CONTAINER_POOLS)',
  ],
  [
    "no machine of a pool except those reserved for leases",
    { poolLabel: "example.org/pool", pools: ["leased", "spare"] },
    [
      { matchExpressions: [{ key: "example.org/pool", operator: "DoesNotExist" }] },
      { matchExpressions: [{ key: "example.org/pool", operator: "In", values: ["leased", "spare"] }] },
    ],
    'it runs on nodes without the label "example.org/pool" or with example.org/pool = leased, spare (PROVISION_CONTAINER_POOLS)',
  ],
])("places containers and stores on %s", (_title, nodes, nodeSelectorTerms, text) => {
  const nodeAffinity = { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms } };
  expect(podsOn(nodes)).toMatchObject([{ affinity: { nodeAffinity } }, { affinity: { nodeAffinity } }]);
  expect(describeNodes(nodes)).toBe(text);
});
