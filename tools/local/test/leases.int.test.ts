import { attachNodes } from "@muster/devcluster";
import { startKubeApiServer, startKubeControllers, findMissingControllers } from "@muster/testkit";
import { describe, it } from "vitest";
import { LEASE_IMAGE } from "./lease-cases.ts";
import { storeEnv } from "./lease-programs.ts";
import { startLeaseRun, ofStack } from "./lease-run.ts";
import { startWorld } from "./stack-world.ts";

const CONTROLLERS = [
  "garbage-collector-controller",
  "namespace-controller",
  "deployment-controller",
  "replicaset-controller",
  "statefulset-controller",
  "persistentvolumeclaim-protection-controller",
  "resourcequota-controller",
];
const lacking = findMissingControllers();

// stack.int.test.ts covers the embedded cluster, and installed.int.test.ts a real cluster.
describe.skipIf(lacking !== undefined)(
  `on a real kube-apiserver${lacking === undefined ? "" : ` (${lacking})`}`,
  () => {
    it("leases one of each type, and removes all their objects", { timeout: 600_000 }, async () => {
      await using server = await startKubeApiServer();
      await using _controllers = await startKubeControllers(server.kubeconfig, CONTROLLERS);
      const pools = [
        { name: "drivers", nodes: 1 },
        { name: "workers", nodes: 4 },
      ];
      await using _nodes = await attachNodes({ kubeconfig: server.kubeconfig, pools });
      const env = { ...storeEnv({ image: LEASE_IMAGE, hasDisk: false }), PROVISION_CONTAINER_POOLS: "workers" };
      await using world = await startWorld({ kubeconfig: server.kubeconfig, installDefinitions: true, env });
      await using run = await startLeaseRun(ofStack(world, { isRealCluster: false }));
      await run.order();
      await run.end();
    });
  },
);
