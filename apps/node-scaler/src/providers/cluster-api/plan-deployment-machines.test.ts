import { describe, expect, it } from "vitest";
import { DELETE_ANNOTATION } from "./held-nodes.ts";
import { type Machine, planDeploymentMachines } from "./plan-deployment-machines.ts";

const deployment = { name: "large", zone: "a" };

function machine(name: string, metadata: Machine["metadata"] = {}, status: Machine["status"] = {}): Machine {
  return { metadata: { name, creationTimestamp: new Date(`2026-01-01T00:00:0${name.length}Z`), ...metadata }, status };
}

describe("machines", () => {
  it("are assigned to the waiting nodes, the oldest first, and stay assigned", () => {
    const { holdings } = planDeploymentMachines(deployment, { n1: null, n2: null, n3: "mmm" }, [
      machine("mmm"),
      machine("mm"),
      machine("m"),
    ]);
    expect(holdings).toEqual({ n1: "m", n2: "mm", n3: "mmm" });
    expect(planDeploymentMachines(deployment, holdings, [machine("m")]).holdings).toBe(holdings);
  });

  it("are not assigned once they are being deleted", () => {
    const going = [
      machine("m", { annotations: { [DELETE_ANNOTATION]: "true" } }),
      machine("mm", { deletionTimestamp: new Date(0) }),
    ];
    const plan = planDeploymentMachines(deployment, { n1: null }, going);
    expect(plan.holdings).toEqual({ n1: null });
    expect(plan.instances.map(({ nodeName, state }) => [nodeName, state])).toEqual([
      ["n1", "pending"],
      ["", "pending"],
      ["", "stopping"],
    ]);
  });

  it("that are gone are not listed for their node, and their replacements are not assigned", () => {
    const { instances } = planDeploymentMachines(deployment, { n1: "gone" }, [machine("m", {}, { phase: "Running" })]);
    expect(instances).toMatchObject([{ instanceId: "large/m", nodeName: "", state: "running" }]);
  });

  it("list their node, their addresses and their failure", () => {
    const status = { phase: "Failed", nodeRef: { name: "k" }, addresses: [{ address: "10.0.0.1" }] };
    const { instances } = planDeploymentMachines(deployment, { n1: "m" }, [machine("m", {}, status)]);
    expect(instances).toMatchObject([
      { kubernetesNode: "k", addresses: ["10.0.0.1"], failure: "the phase of machine m is Failed", zone: "a" },
    ]);
  });
});
