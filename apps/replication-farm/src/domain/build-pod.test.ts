import { findFault } from "@muster/faults";
import { annotations, labels, schedulingGates } from "@muster/proto";
import { describe, expect, it } from "vitest";
import { makeSet, makeSpec } from "../../test/a-set.ts";
import { buildPod } from "./build-pod.ts";

const POLICY = { namespace: "apps", installation: "muster-1", keys: { labels, annotations, schedulingGates } };
const PLACE = { node: "n-1", ordinal: 7 };
const TERM = { key: "metadata.name", operator: "In", values: ["n-1"] };
/** Schedulers apply this term in both directions: a running pod repels later pods of its pod id even if its own labels were removed. */
const ALONE = { topologyKey: "kubernetes.io/hostname", labelSelector: { matchLabels: { pod_id: "proxy" } } };

function build(template: unknown, traceparent = "") {
  const text = typeof template === "string" ? template : JSON.stringify(template);
  return buildPod(makeSet({ traceparent, spec: makeSpec({ podId: "proxy", template: text }) }), PLACE, POLICY);
}

describe("buildPod", () => {
  it("names the pod after set and ordinal, and sets its owner over the template", () => {
    const mine = { app: "x", [labels.owner]: "other", [labels.podId]: "else", [labels.installation]: "no" };
    const { metadata } = build({ metadata: { labels: mine, annotations: { note: "n" } }, spec: { containers: [{}] } });
    expect(metadata).toEqual({
      name: "web-7",
      namespace: "apps",
      labels: {
        app: "x",
        "app.kubernetes.io/managed-by": "muster",
        "muster.dev/installation": "muster-1",
        "muster.dev/owner-kind": "replica-set",
        "muster.dev/owner": "web",
        "muster.dev/owner-uid": "u1",
        "muster.dev/component": "proxy",
        replication_controller_id: "web",
        pod_id: "proxy",
      },
      annotations: { note: "n" },
    });
  });

  it("has a machine of a pool to itself, whatever the template has", () => {
    const template = JSON.stringify({ metadata: { labels: { [labels.exclusive]: "false" } }, spec: {} });
    const { metadata } = buildPod(makeSet({ spec: makeSpec({ pool: "gpu", template }) }), PLACE, POLICY);
    expect(metadata.labels).toMatchObject({ "muster.dev/exclusive": "true" });
  });

  it("restarts always, runs only on its node, and starts only once its creator has confirmed it", () => {
    const gate = { name: "example.com/other" };
    const { spec } = build({ spec: { restartPolicy: "Never", schedulingGates: [gate], containers: [] } });
    expect(spec).toEqual({
      restartPolicy: "Always",
      schedulingGates: [gate, { name: schedulingGates.unconfirmed }],
      affinity: {
        nodeAffinity: {
          requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [{ matchFields: [TERM] }] },
        },
        podAntiAffinity: { requiredDuringSchedulingIgnoredDuringExecution: [ALONE] },
      },
      containers: [],
    });
  });

  it("adds the node to each term of the template's affinity, and keeps the rest of it", () => {
    const required = "requiredDuringSchedulingIgnoredDuringExecution";
    const terms = [{ matchExpressions: [{ key: "a", operator: "Exists" }] }, {}];
    const affinity = {
      nodeAffinity: { [required]: { nodeSelectorTerms: terms } },
      podAffinity: { kept: true },
      podAntiAffinity: { [required]: [{ topologyKey: "zone" }] },
    };
    const { spec } = build({ spec: { affinity, containers: [] } });
    expect(spec["affinity"]).toEqual({
      nodeAffinity: {
        [required]: { nodeSelectorTerms: [{ ...terms[0], matchFields: [TERM] }, { matchFields: [TERM] }] },
      },
      podAffinity: { kept: true },
      podAntiAffinity: { [required]: [{ topologyKey: "zone" }, ALONE] },
    });
  });

  it("passes the trace of the change to containers that set no other", () => {
    const own = { env: [{ name: "TRACEPARENT", value: "mine" }] };
    const { metadata, spec } = build({ spec: { containers: [{ name: "a" }, own] } }, "00-1-2-01");
    expect(metadata.annotations).toEqual({ [annotations.traceparent]: "00-1-2-01" });
    expect(spec["containers"]).toEqual([{ name: "a", env: [{ name: "TRACEPARENT", value: "00-1-2-01" }] }, own]);
  });

  it.each([
    ["{", "is not JSON"],
    ["[]", "is not a pod template: it is not an object"],
    [{ spec: 1 }, 'is not a pod template: "spec" in it is not an object'],
    [{ spec: { containers: ["a"] } }, 'is not a pod template: "containers" in it is not a list of objects'],
  ])("refuses %j as %s", (template, reason) => {
    let fault;
    try {
      build(template);
    } catch (error) {
      fault = findFault(error);
    }
    expect(fault).toEqual({ code: "invalid_request", field: "spec.template_json", reason });
  });
});
