import { annotations } from "@muster/proto";
import { describe, expect, it } from "vitest";
import { DEFAULTS, buildJobManifest } from "../../test/manifests.ts";
import { GANG, planSteps, makeStatus, makeWaitingUnit } from "../../test/planned-job.ts";
import { JOB, makePodFact, makeReplicaSeen, makeSpec } from "../../test/samples.ts";
import { buildUnits } from "./build-units.ts";
import { JOB_KIND } from "./kind-job.ts";
import { TOPOLOGY_ANNOTATION } from "./read-topology.ts";
import type { UnitSeen } from "./snapshot.ts";

const topology = "topology.kubernetes.io/zone";

function read(annotation?: unknown) {
  const metadata = {
    name: "train",
    annotations: annotation === undefined ? {} : { [TOPOLOGY_ANNOTATION]: annotation },
  };
  return JOB_KIND.read({ ...buildJobManifest("train"), metadata }, DEFAULTS);
}

it("has the annotation of the contracts", () => {
  expect(TOPOLOGY_ANNOTATION).toBe(annotations.topology);
});

it("is the label that the annotation names, or absent", () => {
  expect(read(topology)).toMatchObject({ ok: true, spec: { topology } });
  const without = read();
  expect(without.ok && without.spec.topology).toBeUndefined();
});

it.each(["", "not a label", "a/b/c", 1])("is refused if it is no label: %j", (annotation) => {
  const result = read(annotation);
  expect(result).toMatchObject({ ok: false, problems: [{ field: `metadata.annotations.${TOPOLOGY_ANNOTATION}` }] });
});

describe("a gang with a topology", () => {
  const nodes = new Map(["worker-0", "worker-1"].map((component) => [component, `node-${component}`]));
  const inZone: UnitSeen = { id: GANG, state: "granted", nodes, domain: { key: topology, value: "b" } };

  it("is requested with it", () => {
    const [gang, ...others] = buildUnits(JOB, makeSpec({ topology }), makeStatus(), []);
    expect(gang).toMatchObject({ topology, because: "gang" });
    expect(others).toEqual([]);
  });

  it("is requested again after a change of the annotation only while it waits", () => {
    const planned = (waits: string | undefined, wanted: string | undefined) =>
      planSteps({
        units: [makeWaitingUnit(waits === undefined ? {} : { topology: waits })],
        spec: makeSpec({ topology: wanted }),
      });
    expect(planned(topology, topology)).toEqual([]);
    expect(planned(undefined, undefined)).toEqual([]);
    for (const [before, after] of [
      [topology, "rack"],
      [topology, undefined],
      [undefined, topology],
    ])
      expect(planned(before, after)).toEqual(["release gang: needs-changed"]);
  });

  it("does not repeat requests at a ledger that drops it", () => {
    expect(planSteps({ units: [makeWaitingUnit({ dropsConstraints: true })], spec: makeSpec({ topology }) })).toEqual(
      [],
    );
  });

  it("gets further machines, and replacements, in the domain of its grant", () => {
    const selection = { terms: [], tolerations: [{ operator: "Exists" }] };
    const grown = makeSpec({ topology: "rack" });
    const replicas = grown.replicas.map((each) => ({ ...each, replicas: 3, selection }));
    const units = buildUnits(JOB, { ...grown, replicas }, makeStatus({ replaced: ["worker-1"] }), [inZone]);
    const domain = { key: topology, operator: "In", values: ["b"] };
    expect(units.slice(1).map(({ needs, topology: own }) => ({ needs, own }))).toEqual(
      ["worker-1", "worker-2"].map((component) => ({
        needs: [
          {
            component,
            pool: "pool-a",
            selection: { terms: [{ matchExpressions: [domain] }], tolerations: [{ operator: "Exists" }] },
          },
        ],
        own: undefined,
      })),
    );
  });

  it("keeps its machines when the annotation changes", () => {
    const replicas = [makeReplicaSeen("worker", [makePodFact("worker-0"), makePodFact("worker-1")])];
    expect(planSteps({ units: [inZone], spec: makeSpec({ topology: "rack" }), replicas })).toEqual([]);
  });
});
