import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  CreateSubnetCommand,
  CreateTagsCommand,
  CreateVpcCommand,
  DescribeImagesCommand,
  DescribeInstanceAttributeCommand,
  DescribeInstancesCommand,
  DescribeSubnetsCommand,
  EC2Client,
  RunInstancesCommand,
} from "@aws-sdk/client-ec2";
import { until } from "@muster/testkit";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { openEc2 } from "../src/providers/ec2/open-ec2.ts";
import { ec2Settings } from "../src/providers/ec2/settings.ts";
import type { BootRequest, NodeProvider } from "../src/providers/provider.ts";
import { buildPolicy } from "./build-node.ts";
import { type Ec2Double, moto, startEc2 } from "./moto.ts";

const never = new AbortController().signal;
/** The time of EC2's clock. */
const WALL_MS = Date.parse("2026-03-01T12:00:00Z");
const credentials = { accessKeyId: "a", secretAccessKey: "b" };

describe.skipIf(!moto.found)(moto.found ? "ec2" : `ec2 (skipped: ${moto.reason})`, () => {
  let ec2: Ec2Double;
  let client: EC2Client;
  let directory = "";
  let subnets: { id: string; zone: string; isPublic: boolean }[] = [];
  let image = "";
  const opened: NodeProvider[] = [];

  beforeAll(async () => {
    ec2 = await startEc2();
    Object.assign(process.env, { AWS_ACCESS_KEY_ID: "a", AWS_SECRET_ACCESS_KEY: "b" });
    client = new EC2Client({ region: "eu-central-1", endpoint: ec2.endpoint, credentials });
    directory = await mkdtemp(join(tmpdir(), "ec2-"));
    await writeFile(
      join(directory, "user-data"),
      "join ${MUSTER_NODE_NAME} ${MUSTER_BOOTSTRAP_TOKEN} ${MUSTER_NODE_LABELS}",
    );
    const { Subnets = [] } = await client.send(new DescribeSubnetsCommand({}));
    subnets = Subnets.map(({ SubnetId = "", AvailabilityZone = "", MapPublicIpOnLaunch = false }) => ({
      id: SubnetId,
      zone: AvailabilityZone,
      isPublic: MapPublicIpOnLaunch,
    }));
    const { Images = [] } = await client.send(new DescribeImagesCommand({ Owners: ["amazon"] }));
    image = Images[0]?.ImageId ?? "";
  });
  afterEach(() => {
    ec2.refuse = () => undefined;
  });
  afterAll(async () => {
    for (const provider of opened) await provider[Symbol.asyncDispose]();
    client.destroy();
    await ec2[Symbol.asyncDispose]();
    await rm(directory, { recursive: true });
  });

  let controllers = 0;
  const open = async (options: { timeoutMs?: number; now?: () => number; subnets?: string[] } = {}) => {
    const provider = await openEc2({
      name: "aws",
      settings: ec2Settings.parse({
        kind: "ec2",
        region: "eu-central-1",
        controller: `test-${++controllers}`,
        subnets: options.subnets ?? subnets.map(({ id }) => id),
        userDataFile: join(directory, "user-data"),
        endpoint: ec2.endpoint,
        tags: { team: "a" },
      }),
      timeoutMs: options.timeoutMs ?? 60_000,
      now: options.now ?? (() => 0),
      wallNow: () => WALL_MS,
      unavailableMs: 600_000,
      mintToken: (nodeName) => Promise.resolve(`token-of-${nodeName}`),
    });
    opened.push(provider);
    return provider;
  };
  let vpc: string | undefined;
  const makeSubnet = async (CidrBlock: string, AvailabilityZone: string): Promise<string> => {
    vpc ??= (await client.send(new CreateVpcCommand({ CidrBlock: "10.1.0.0/16" }))).Vpc?.VpcId;
    const made = await client.send(new CreateSubnetCommand({ VpcId: vpc, CidrBlock, AvailabilityZone }));
    return made.Subnet?.SubnetId ?? "";
  };
  let nodes = 0;
  const boot = (more: Partial<BootRequest> = {}): BootRequest => ({
    nodeName: `elastic-${++nodes}`,
    pool: "elastic",
    instanceType: "m5.large",
    image,
    spot: false,
    zone: undefined,
    gpus: 0,
    volumeGib: undefined,
    privateIpOnly: false,
    labels: { pool: "elastic" },
    taints: [{ key: "muster.dev/unopened", effect: "NoSchedule" }],
    ...more,
  });
  const describeOne = async (instanceId: string) => {
    const { Reservations = [] } = await client.send(new DescribeInstancesCommand({ InstanceIds: [instanceId] }));
    return Reservations[0]?.Instances?.[0];
  };
  const refuseLaunch = (code: string, isRefused: (subnet: string) => boolean, message = "no") => {
    ec2.refuse = (parameters) =>
      parameters.get("Action") === "RunInstances" && isRefused(parameters.get("NetworkInterface.1.SubnetId") ?? "")
        ? { code, message }
        : undefined;
  };
  const idOf = (outcome: Awaited<ReturnType<NodeProvider["start"]>>): string =>
    outcome.kind === "started" ? outcome.instanceId : expect.fail(JSON.stringify(outcome));

  it("starts an instance tagged with its controller and node, which runs the node's own script", async () => {
    const provider = await open();
    const order = boot({ volumeGib: 30 });
    const instanceId = idOf(await provider.start(order, never));
    const instance = await describeOne(instanceId);
    const tags = (instance?.Tags ?? []).map(({ Key, Value }) => `${Key}=${Value}`);
    expect(tags).toEqual(
      expect.arrayContaining([`Name=${order.nodeName}`, `muster.dev/node=${order.nodeName}`, "team=a"]),
    );
    expect(instance?.InstanceType).toBe("m5.large");
    const attribute = { InstanceId: instanceId, Attribute: "userData" as const };
    const { UserData } = await client.send(new DescribeInstanceAttributeCommand(attribute));
    expect(Buffer.from(UserData?.Value ?? "", "base64").toString()).toBe(
      `join ${order.nodeName} token-of-${order.nodeName} pool=elastic`,
    );
  });

  it("gives one instance to a node that is started twice", async () => {
    const provider = await open();
    const order = boot();
    const first = idOf(await provider.start(order, never));
    expect(idOf(await provider.start(order, never))).toBe(first);
    expect((await provider.list(never)).map(({ instanceId }) => instanceId)).toEqual([first]);
  });

  it("lists its own instances with their zones and addresses, and no others", async () => {
    const [one, other] = [await open(), await open()];
    const order = boot();
    const started = await one.start(order, never);
    await other.start(boot(), never);
    await client.send(new RunInstancesCommand({ ImageId: image, MinCount: 1, MaxCount: 1, InstanceType: "m5.large" }));
    const list = await one.list(never);
    expect(list).toHaveLength(1);
    expect(list[0]).toMatchObject({
      nodeName: order.nodeName,
      state: "running",
      zone: started.kind === "started" ? started.zone : "",
      lostAtMs: undefined,
    });
    expect(list[0]?.addresses[0]).toMatch(/^\d+\.\d+\.\d+\.\d+$/);
  });

  it("stops an instance, also repeatedly, and ignores a missing one", async () => {
    const provider = await open();
    const instanceId = idOf(await provider.start(boot(), never));
    await provider.stop({ instanceId, nodeName: "a" }, never);
    await until("the instance is gone", async () => (await provider.list(never)).length === 0);
    await provider.stop({ instanceId, nodeName: "a" }, never);
    await provider.stop({ instanceId: "i-0123456789abcdef0", nodeName: "a" }, never);
  });

  it("requests spot if the order does", async () => {
    const provider = await open();
    const instanceId = idOf(await provider.start(boot({ spot: true }), never));
    expect((await describeOne(instanceId))?.InstanceLifecycle).toBe("spot");
    expect(await provider.list(never)).toHaveLength(1);
  });

  it("lists an on-demand instance that is scheduled for retirement", async () => {
    const provider = await open();
    const orders = [boot(), boot()];
    const [soon = "", late = ""] = await Promise.all(orders.map(async (one) => idOf(await provider.start(one, never))));
    const plan = (instanceId: string, inMs: number): void => {
      ec2.planned.push({ instanceId, code: "instance-retirement", notBefore: new Date(WALL_MS + inMs) });
    };
    plan(soon, 600_000);
    plan(late, 86_400_000);
    plan("i-0123456789abcdef0", 600_000);
    const lost = (await provider.list(never)).map(({ instanceId, lostAtMs }) => [instanceId, lostAtMs]);
    expect(new Map(lost as [string, number | undefined][])).toEqual(
      new Map([
        [soon, WALL_MS + 600_000],
        [late, undefined],
      ]),
    );
    ec2.planned.length = 0;
  });

  it("uses the requested zone, and no other", async () => {
    const provider = await open();
    const zone = subnets.at(-1)?.zone ?? "";
    expect(await provider.start(boot({ zone }), never)).toMatchObject({ kind: "started", zone });
    refuseLaunch("InsufficientInstanceCapacity", () => true);
    expect(await provider.start(boot({ zone }), never)).toMatchObject({ kind: "no-capacity", zone });
    expect(await provider.start(boot({ zone: "nowhere-1a" }), never)).toMatchObject({
      kind: "no-capacity",
      zone: "nowhere-1a",
    });
  });

  it("tries another zone when one is full, remembers it for ten minutes, and then tries it again", async () => {
    let nowMs = 0;
    const [large, small] = [
      await makeSubnet("10.1.0.0/18", "eu-central-1a"),
      await makeSubnet("10.1.64.0/24", "eu-central-1b"),
    ];
    const provider = await open({ now: () => nowMs, subnets: [small, large] });
    refuseLaunch("InsufficientInstanceCapacity", (subnet) => subnet === large);
    const launches = async (order: BootRequest): Promise<number> => {
      const before = ec2.asked.get("RunInstances") ?? 0;
      expect(await provider.start(order, never)).toMatchObject({ kind: "started", zone: "eu-central-1b" });
      return (ec2.asked.get("RunInstances") ?? 0) - before;
    };
    const counts = [await launches(boot()), await launches(boot()), await launches(boot({ spot: true }))];
    nowMs = 600_000;
    counts.push(await launches(boot()));
    expect(counts).toEqual([2, 1, 2, 2]);
  });

  it("distinguishes missing capacity from an unsupported type", async () => {
    const provider = await open();
    refuseLaunch("InsufficientFreeAddressesInSubnet", () => true);
    expect(await provider.start(boot(), never)).toMatchObject({ kind: "no-capacity", zone: undefined });
    refuseLaunch("MaxSpotInstanceCountExceeded", () => true);
    expect(await provider.start(boot({ spot: true }), never)).toMatchObject({ kind: "no-capacity", zone: undefined });
    refuseLaunch("Unsupported", () => true, "The requested configuration is currently not supported.");
    expect(await provider.start(boot({ spot: true }), never)).toMatchObject({ kind: "unsupported" });
    expect(await provider.list(never)).toEqual([]);
  });

  it("reports a timeout, a rate limit, and a missing right", async () => {
    const provider = await open();
    const throttled = { code: "RequestLimitExceeded", message: "slow down", status: 503 };
    ec2.refuse = () => throttled;
    await expect(provider.list(never)).rejects.toMatchObject({ fault: { code: "limit_exceeded" } });
    ec2.refuse = () => ({ code: "UnauthorizedOperation", message: "You are not authorized", status: 403 });
    await expect(provider.list(never)).rejects.toMatchObject({
      fault: { code: "invalid_request", field: "providers.aws" },
    });
    ec2.refuse = () => "hang";
    const hasty = await open({ timeoutMs: 1000 });
    await expect(hasty.list(never)).rejects.toMatchObject({ fault: { code: "deadline_exceeded", timeoutMs: 1000 } });
    const stop = new AbortController();
    const listing = provider.list(stop.signal);
    stop.abort();
    await expect(listing).rejects.toMatchObject({ name: "AbortError" });
  });

  it("reports before the first boot which types, zones and addresses are missing", async () => {
    const type = (name: string) => ({ name, cpuMilli: undefined, memoryBytes: undefined, gpus: 0 });
    const types = ["m5.large", "m5.nosuch"].map(type);
    const zones = [subnets[0]?.zone ?? "", "eu-central-1z"];
    const provider = await open({ subnets: subnets.filter(({ isPublic }) => isPublic).map(({ id }) => id) });
    expect(await provider.checkPool(buildPolicy({ instanceTypes: types, zones }), never)).toEqual([
      "there is no instance type m5.nosuch in the region",
      "no subnet lies in zone eu-central-1z",
    ]);
    expect(await provider.checkPool(buildPolicy({ instanceTypes: [type("m5.large")] }), never)).toEqual([]);
    const hidden = buildPolicy({ instanceTypes: [type("m5.large")], privateIpOnly: true });
    expect(await provider.checkPool(hidden, never)).toEqual([
      "all subnets give public addresses, and privateIpOnly is set",
    ]);
  });

  it("finds the newest image, and reports a missing one", async () => {
    const provider = await open();
    const { Images = [] } = await client.send(new DescribeImagesCommand({ Owners: ["099720109477"] }));
    const newest = Images.toSorted((a, b) => Date.parse(a.CreationDate ?? "") - Date.parse(b.CreationDate ?? "")).at(
      -1,
    );
    const found = await provider.findImage({ owner: "099720109477" }, never);
    const times = Images.filter(({ CreationDate }) => CreationDate === newest?.CreationDate).map(
      ({ ImageId }) => ImageId,
    );
    expect(times).toContain(found);
    await expect(provider.findImage({ name: "no-such" }, never)).rejects.toMatchObject({
      fault: { code: "not_found" },
    });
  });

  it("ignores an instance whose tag names another controller", async () => {
    const provider = await open();
    const instanceId = idOf(await provider.start(boot(), never));
    const Tags = [{ Key: "muster.dev/controller", Value: "other-scaler" }];
    await client.send(new CreateTagsCommand({ Resources: [instanceId], Tags }));
    expect(await provider.list(never)).toEqual([]);
  });
});
