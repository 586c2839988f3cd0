import { expect, it } from "vitest";
import { makeComponent, makePodSeen, makeProvisioning, makeRecord, makeSpec } from "../../test/samples.ts";
import { listComponentMachines, listComponentPlaces } from "./component-machines.ts";
import type { ComponentStatus, SessionRecord } from "./session.ts";
import type { ReplacementSeen } from "./snapshot.ts";

const GPU = { key: "gpu", operator: "Exists" };
const template = (fields: object) => JSON.stringify({ spec: fields });
const REQUESTING = { containers: [{ name: "main", resources: { requests: { cpu: "500m" } } }] };

const SPEC = makeSpec({
  components: [
    makeComponent("driver", "driver"),
    makeComponent("client-0", "client", { shared: true, templateJson: template(REQUESTING) }),
    makeComponent("server-0", "server", {
      shared: true,
      templateJson: template({ ...REQUESTING, tolerations: [GPU] }),
    }),
  ],
});

/** The session after its grant, with these changes of its server. */
function session(server: Partial<ComponentStatus> = {}): SessionRecord {
  const { components } = makeProvisioning(["server-0"]);
  const base = makeRecord({ reservationId: "r-1" }, SPEC);
  const found = SPEC.components.flatMap(({ name }) => components.find((each) => each.name === name) ?? []);
  return { ...base, components: found.map((each) => (each.name === "server-0" ? { ...each, ...server } : each)) };
}

const NONE = new Map<string, ReplacementSeen>();
const MOVED = new Map([
  ["server-0", { state: "granted", id: "r-2", machines: [{ component: "server-0", pool: "workers", node: "node-9" }] }],
] as const);
const REPLACING = { node: "", lostAtMs: 1, lostNode: "node-server-0", podUid: "" };

it("finds the machines of all components, the shared ones, and the tolerations on each", () => {
  expect(listComponentMachines({ record: session(REPLACING), replacements: MOVED })).toEqual({
    nodes: new Set(["node-driver", "node-client-0", "node-9"]),
    lostNodes: ["node-server-0"],
    sharedNodes: new Set(["node-client-0", "node-9"]),
    tolerations: new Map([
      ["node-driver", []],
      ["node-client-0", []],
      ["node-9", [GPU]],
      ["node-server-0", [GPU]],
    ]),
  });
});

it("tolerates on a machine only what all of its components tolerate", () => {
  const { tolerations } = listComponentMachines({ record: session({ node: "node-client-0" }), replacements: NONE });
  expect(tolerations.get("node-client-0")).toEqual([]);
});

const onNode = makePodSeen("server-0", { podIp: "", node: "node-server-0" });
it.each<[string, Partial<ComponentStatus>, typeof NONE, readonly (typeof onNode)[], readonly string[]]>([
  ["before its pod is placed", {}, NONE, [], ["client-0 node-client-0", "server-0 node-server-0"]],
  ["not where its pod is placed", {}, NONE, [onNode], ["client-0 node-client-0"]],
  ["not once it has an address", { podIp: "10.0.0.1" }, NONE, [], ["client-0 node-client-0"]],
  ["not once it has ended", { state: "FAILED" }, NONE, [], ["client-0 node-client-0"]],
  [
    "where it lost its part, and where it is granted another",
    REPLACING,
    MOVED,
    [],
    ["client-0 node-client-0", "server-0 node-server-0", "server-0 node-9"],
  ],
])("a shared component has a machine %s", (_title, server, replacements, pods, places) => {
  const found = listComponentPlaces({ record: session(server), replacements, pods });
  expect(found.map((place) => `${place.component} ${place.node}`)).toEqual(places);
  for (const { requests } of found) expect(requests()).toEqual({ cpu: 500 });
});
