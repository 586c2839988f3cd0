import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DescribeImagesCommand, DescribeSubnetsCommand, EC2Client } from "@aws-sdk/client-ec2";
import { buildMachineDeployment, playClusterApi, playKarpenter } from "@muster/devcluster/machine-controllers";
import { describe } from "vitest";
import { openClusterApi } from "../src/providers/cluster-api/open-cluster-api.ts";
import { clusterApiSettings } from "../src/providers/cluster-api/settings.ts";
import { openEc2 } from "../src/providers/ec2/open-ec2.ts";
import { ec2Settings } from "../src/providers/ec2/settings.ts";
import { openKarpenter } from "../src/providers/karpenter/open-karpenter.ts";
import { karpenterSettings } from "../src/providers/karpenter/settings.ts";
import type { NodeProvider } from "../src/providers/provider.ts";
import { buildBoot } from "./build-boot.ts";
import { CONTROL_PLANES } from "./control-plane.ts";
import { moto, startEc2 } from "./moto.ts";
import { describeProvider, type ProviderWorld } from "./provider-conformance.ts";

const DEPLOYMENTS = { apiVersion: "cluster.x-k8s.io/v1beta2", plural: "machinedeployments", namespace: "default" };
const never = new AbortController().signal;
const BOOT = buildBoot();

describe.each(CONTROL_PLANES)("on $title", ({ skip, start }) => {
  describe.skipIf(skip)("", () => {
    describeProvider("karpenter", async (): Promise<ProviderWorld> => {
      await using starting = new AsyncDisposableStack();
      const { calls } = starting.use(await start(["karpenter/karpenter.sh_nodeclaims.yaml"]));
      const karpenter = starting.use(playKarpenter(calls));
      karpenter.short.add("huge");
      const nodeClass = { group: "karpenter.k8s.aws", kind: "EC2NodeClass", name: "default" };
      const open = (controller: string): NodeProvider => {
        const settings = karpenterSettings.parse({ kind: "karpenter", controller, nodeClass });
        return openKarpenter({ name: "karpenter", settings, calls, timeoutMs: 60_000 });
      };
      const other = open("other");
      const all = starting.move();
      return {
        provider: open("own"),
        boot: BOOT,
        imageProperties: {},
        knowsTokens: true,
        short: { boot: { ...BOOT, instanceType: "huge", zone: "zone-a" }, zone: "zone-a" },
        makeForeign: async () => {
          await other.start({ ...BOOT, nodeName: "foreign" }, never);
        },
        unknown: { instanceId: "unknown", nodeName: "unknown" },
        [Symbol.asyncDispose]: () => all.disposeAsync(),
      };
    });

    describeProvider(
      "cluster-api",
      async (): Promise<ProviderWorld> => {
        await using starting = new AsyncDisposableStack();
        const definitions = ["machinedeployments", "machines"].map(
          (plural) => `cluster-api/cluster.x-k8s.io_${plural}.yaml`,
        );
        const { calls } = starting.use(await start(definitions));
        for (const name of ["own", "other"]) await calls.create(DEPLOYMENTS, buildMachineDeployment(name));
        starting.use(playClusterApi(calls));
        const open = (name: string): NodeProvider => {
          const deployments = [{ name, pool: "elastic", instanceType: "large", zone: "zone-a" }];
          const block = { kind: "cluster-api", controller: name, namespace: "default", deployments };
          return openClusterApi({
            name: "machines",
            settings: clusterApiSettings.parse(block),
            calls,
            timeoutMs: 60_000,
          });
        };
        const other = open("other");
        const all = starting.move();
        return {
          provider: open("own"),
          boot: BOOT,
          imageProperties: {},
          knowsTokens: true,
          // A MachineDeployment does not report that no machine can be created for it.
          short: undefined,
          makeForeign: async () => {
            await other.start({ ...BOOT, nodeName: "foreign" }, never);
          },
          unknown: { instanceId: "own/unknown", nodeName: "unknown" },
          [Symbol.asyncDispose]: () => all.disposeAsync(),
        };
      },
      { canBeShort: false },
    );
  });
});

describe.skipIf(!moto.found)(moto.found ? "on moto_server" : `on moto_server (skipped: ${moto.reason})`, () => {
  describeProvider("ec2", async (): Promise<ProviderWorld> => {
    await using starting = new AsyncDisposableStack();
    const ec2 = starting.use(await startEc2());
    const directory = await mkdtemp(join(tmpdir(), "muster-ec2-"));
    starting.defer(() => rm(directory, { recursive: true }));
    const userDataFile = join(directory, "user-data");
    await writeFile(userDataFile, "join ${MUSTER_NODE_NAME}");
    Object.assign(process.env, { AWS_ACCESS_KEY_ID: "a", AWS_SECRET_ACCESS_KEY: "b" });
    const region = "eu-central-1";
    const client = new EC2Client({ region, endpoint: ec2.endpoint });
    starting.defer(() => client.destroy());
    const { Subnets = [] } = await client.send(new DescribeSubnetsCommand({}));
    const { Images = [] } = await client.send(new DescribeImagesCommand({ Owners: ["amazon"] }));
    const open = async (controller: string): Promise<NodeProvider> => {
      const subnets = Subnets.map(({ SubnetId }) => SubnetId ?? "");
      const block = { kind: "ec2", region, controller, subnets, userDataFile, endpoint: ec2.endpoint };
      const settings = ec2Settings.parse(block);
      const mintToken = () => Promise.resolve("token");
      const deps = {
        name: "aws",
        settings,
        timeoutMs: 60_000,
        now: () => performance.now(),
        wallNow: Date.now,
        unavailableMs: 600_000,
        mintToken,
      };
      return starting.use(await openEc2(deps));
    };
    const [provider, other] = [await open("own"), await open("other")];
    const zone = Subnets[0]?.AvailabilityZone;
    // No other test requests this type here, so that it alone is short.
    ec2.refuse = (parameters) =>
      parameters.get("Action") === "RunInstances" && parameters.get("InstanceType") === "m5.4xlarge"
        ? { code: "InsufficientInstanceCapacity" }
        : undefined;
    const boot = { ...BOOT, instanceType: "m5.large" };
    const image = Images[0]?.ImageId ?? "";
    const all = starting.move();
    return {
      provider,
      boot,
      imageProperties: { owner: "amazon" },
      knowsTokens: false,
      short: { boot: { ...boot, instanceType: "m5.4xlarge", zone }, zone },
      makeForeign: async () => {
        await other.start({ ...boot, nodeName: "foreign", image }, never);
      },
      unknown: { instanceId: "i-0123456789abcdef0", nodeName: "unknown" },
      [Symbol.asyncDispose]: () => all.disposeAsync(),
    };
  });
});
