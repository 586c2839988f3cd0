import { afterAll, beforeAll, describe } from "vitest";
import { describeAccounts } from "./conformance/accounts.ts";
import { type Api, api } from "./conformance/api.ts";
import { describeClient } from "./conformance/client-node.ts";
import { type Cluster, clusters } from "./conformance/clusters.ts";
import { describeDeletion } from "./conformance/deletion.ts";
import { describeDiscovery } from "./conformance/discovery.ts";
import { describeDisruption } from "./conformance/disruption.ts";
import { describeKubectl } from "./conformance/kubectl.ts";
import { describeBodies } from "./conformance/bodies.ts";
import { describeCustom } from "./conformance/custom.ts";
import { describeCoordination } from "./conformance/coordination.ts";
import { describeDefinitions } from "./conformance/definitions.ts";
import { describeRoles } from "./conformance/roles.ts";
import { describeRules } from "./conformance/rules.ts";
import { describeFixtures } from "./conformance/fixtures.ts";
import { describeEveryday } from "./conformance/everyday.ts";
import { describeOpenApi } from "./conformance/openapi.ts";
import { describeLists } from "./conformance/lists.ts";
import { describeLogs } from "./conformance/logs.ts";
import { describeObjects } from "./conformance/objects.ts";
import { describePatches } from "./conformance/patches.ts";
import { describeKinds } from "./conformance/pods.ts";
import { describeStatefulSets } from "./conformance/stateful-sets.ts";
import { describeTables } from "./conformance/tables.ts";
import { describeTenancy } from "./conformance/tenancy.ts";
import { describeVolumeClaims } from "./conformance/volume-claims.ts";
import { describeVerbs } from "./conformance/verbs.ts";
import { describeWatches } from "./conformance/watches.ts";
import { describeWorkloads } from "./conformance/workloads.ts";

// One suite for both servers: where they differ, the embedded one is wrong.
describe.each(clusters())("$title", ({ start, skip }) => {
  let cluster: Cluster | undefined;
  let connected: Api | undefined;
  beforeAll(async () => {
    if (skip) return;
    cluster = await start();
    connected = api(cluster);
  });
  afterAll(async () => {
    await cluster?.[Symbol.asyncDispose]();
  });
  const connection = (): Api => {
    if (connected === undefined) throw new Error("the cluster did not start");
    return connected;
  };

  describe.skipIf(skip)("objects", () => describeObjects(connection));
  describe.skipIf(skip)("lists", () => describeLists(connection));
  describe.skipIf(skip)("watches", () => describeWatches(connection));
  describe.skipIf(skip)("patches", () => describePatches(connection));
  describe.skipIf(skip)("deletions", () => describeDeletion(connection));
  describe.skipIf(skip)("coordination", () => describeCoordination(connection));
  describe.skipIf(skip)("disruption", () => describeDisruption(connection));
  describe.skipIf(skip)("roles", () => describeRoles(connection));
  describe.skipIf(skip)("service accounts", () => describeAccounts(connection));
  describe.skipIf(skip)("kinds", () => describeKinds(connection));
  describe.skipIf(skip)("volume claims", () => describeVolumeClaims(connection));
  describe.skipIf(skip)("workloads", () => describeWorkloads(connection));
  describe.skipIf(skip)("tenancy", () => describeTenancy(connection));
  describe.skipIf(skip)("stateful sets", () => describeStatefulSets(connection));
  describe.skipIf(skip)("tables", () => describeTables(connection));
  describe.skipIf(skip)("discovery", () => describeDiscovery(connection));
  describe.skipIf(skip)("logs", () => describeLogs(connection));
  describe.skipIf(skip)("client-node", () => describeClient(connection));
  describe.skipIf(skip)("kubectl", () => describeKubectl(connection));
  describe.skipIf(skip)("bodies", () => describeBodies(connection));
  describe.skipIf(skip)("OpenAPI", () => describeOpenApi(connection));
  describe.skipIf(skip)("definitions", () => describeDefinitions(connection));
  describe.skipIf(skip)("custom resources", () => describeCustom(connection));
  describe.skipIf(skip)("rules", () => describeRules(connection));
  describe.skipIf(skip)("definitions", () => describeFixtures(connection));
  describe.skipIf(skip)("everyday kubectl", () => describeEveryday(connection));
  describe.skipIf(skip)("kubectl on existing objects", () => describeVerbs(connection));
});
