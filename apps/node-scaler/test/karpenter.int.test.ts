import { type Karpenter, playKarpenter } from "@muster/devcluster/machine-controllers";
import { until } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { NODE_CLAIMS, type NodeClaim } from "../src/providers/karpenter/node-claim.ts";
import { openKarpenter } from "../src/providers/karpenter/open-karpenter.ts";
import { karpenterSettings } from "../src/providers/karpenter/settings.ts";
import type { NodeProvider } from "../src/providers/provider.ts";
import { buildBoot } from "./build-boot.ts";
import { buildPolicy } from "./build-node.ts";
import { CONTROL_PLANES, type ControlPlane } from "./control-plane.ts";
import { NODE_CLASS } from "./node-class.ts";

const DEFINITIONS = { apiVersion: "apiextensions.k8s.io/v1", plural: "customresourcedefinitions" };
const never = new AbortController().signal;
describe.each(CONTROL_PLANES)("karpenter on $title", ({ skip, start }) => {
  describe.skipIf(skip)("", () => {
    let world: ControlPlane;
    let karpenter: Karpenter;
    let provider: NodeProvider;
    let controllers = 0;

    const open = (timeoutMs = 60_000): NodeProvider =>
      openKarpenter({
        name: "karpenter",
        settings: karpenterSettings.parse({
          kind: "karpenter",
          controller: `test-${++controllers}`,
          nodeClass: { group: "karpenter.k8s.aws", kind: "EC2NodeClass", name: "default" },
        }),
        calls: world.calls,
        timeoutMs,
      });

    beforeAll(async () => {
      world = await start(["karpenter/karpenter.sh_nodeclaims.yaml"]);
      karpenter = playKarpenter(world.calls);
      provider = open();
    });
    afterAll(async () => {
      await karpenter[Symbol.asyncDispose]();
      await world[Symbol.asyncDispose]();
    });

    const listed = async (nodeName: string, from = provider) =>
      (await from.list(never)).find((instance) => instance.nodeName === nodeName);

    it("creates a NodeClaim of the type, and lists its node once it has joined", async () => {
      const order = buildBoot({ spot: true, zone: "zone-b" });
      expect(await provider.start(order, never)).toEqual({
        kind: "started",
        instanceId: order.nodeName,
        zone: "zone-b",
      });
      await until("the node has joined", async () => (await listed(order.nodeName))?.kubernetesNode === order.nodeName);
      expect(await listed(order.nodeName)).toMatchObject({ state: "running", zone: "zone-b", lostAtMs: undefined });
      const claim = await world.calls.get<NodeClaim>(NODE_CLAIMS, order.nodeName);
      expect(claim.metadata?.labels).toMatchObject({ pool: "elastic" });
      expect(claim.spec).toMatchObject({
        requirements: [
          { key: "node.kubernetes.io/instance-type", operator: "In", values: ["large"] },
          { key: "karpenter.sh/capacity-type", operator: "In", values: ["spot"] },
          { key: "topology.kubernetes.io/zone", operator: "In", values: ["zone-b"] },
        ],
        expireAfter: "Never",
      });
    });

    it("gives one claim to a node that is started twice, and none of another controller", async () => {
      const order = buildBoot();
      const first = await provider.start(order, never);
      expect(await provider.start(order, never)).toMatchObject({ kind: "started", zone: "zone-a" });
      expect(first).toMatchObject({ instanceId: order.nodeName, zone: "zone-a" });
      const other = open();
      expect(await other.list(never)).toEqual([]);
      await expect(other.start(order, never)).rejects.toMatchObject({ fault: { code: "already_exists" } });
      await expect(other.stop({ instanceId: order.nodeName, nodeName: order.nodeName }, never)).rejects.toMatchObject({
        fault: { code: "already_exists" },
      });
    });

    it("reports a type as unavailable when Karpenter deletes the claim", async () => {
      karpenter.short.add("huge");
      const order = buildBoot({ instanceType: "huge", zone: "zone-a" });
      expect(await provider.start(order, never)).toMatchObject({ kind: "no-capacity", zone: "zone-a" });
      expect(await listed(order.nodeName)).toBeUndefined();
    });

    it("continues without an answer of Karpenter after its timeout", async () => {
      const waiting = open(3000);
      await karpenter[Symbol.asyncDispose]();
      const order = buildBoot();
      expect(await waiting.start(order, never)).toMatchObject({ kind: "started", zone: undefined });
      const instance = await until("the claim is listed", () => listed(order.nodeName, waiting));
      expect(instance).toMatchObject({ state: "pending" });
      karpenter = playKarpenter(world.calls);
      await until("the claim is launched", async () => (await listed(order.nodeName, waiting))?.state === "running");
    });

    it("ends a claim, also repeatedly, and ignores a missing one", async () => {
      const order = buildBoot();
      await provider.start(order, never);
      const instance = { instanceId: order.nodeName, nodeName: order.nodeName };
      await provider.stop(instance, never);
      await provider.stop(instance, never);
      await until("the claim is gone", async () => (await listed(order.nodeName)) === undefined);
      await provider.stop(instance, never);
    });

    it("reports before the first boot which parts of a pool are missing", async () => {
      const wrong = (pool = buildPolicy()) => provider.checkPool(pool, never);
      expect(await wrong()).toEqual(["the cluster has no node class of kind EC2NodeClass in karpenter.k8s.aws"]);
      await world.calls.create(DEFINITIONS, NODE_CLASS);
      const resource = { apiVersion: "karpenter.k8s.aws/v1", plural: "ec2nodeclasses" };
      await until("node classes are served", () =>
        world.calls.list(resource).then(
          () => true,
          () => false,
        ),
      );
      expect(await wrong()).toEqual(["there is no EC2NodeClass default"]);
      await world.calls.create(resource, {
        apiVersion: resource.apiVersion,
        kind: "EC2NodeClass",
        metadata: { name: "default" },
      });
      expect(await wrong()).toEqual([]);
      expect(await wrong(buildPolicy({ volumeGib: 20 }))).toMatchObject([expect.stringContaining("volume")]);
    });

    it("reports settings that a NodeClaim lacks", async () => {
      expect(await provider.start(buildBoot({ volumeGib: 10 }), never)).toMatchObject({ kind: "unsupported" });
      expect(await provider.start(buildBoot({ privateIpOnly: true }), never)).toMatchObject({ kind: "unsupported" });
    });

    it("reports the loss of a node as soon as Karpenter deletes the claim", async () => {
      const order = buildBoot();
      await provider.start(order, never);
      let mayGo = false;
      await until("the node has joined", async () => (await listed(order.nodeName))?.kubernetesNode !== undefined);
      karpenter.leave = async () => {
        await until("the claim may be removed", () => mayGo);
      };
      await world.calls.delete(NODE_CLAIMS, order.nodeName);
      const lost = await listed(order.nodeName);
      expect(lost?.state).toBe("stopping");
      expect(lost?.lostAtMs).toBeGreaterThan(0);
      mayGo = true;
      await until("the claim is gone", async () => (await listed(order.nodeName)) === undefined);
    });
  });
});
