import { describe, expect, it } from "vitest";
import type { BootRequest } from "../provider.ts";
import { buildUserData, MAX_USER_DATA_BYTES } from "./build-user-data.ts";
import { decideLaunchError } from "./decide-launch-error.ts";
import { findNewestImage } from "../newest-image.ts";
import { buildImageFilters, readImages } from "./find-image.ts";
import { planSubnets, type Subnet } from "./plan-subnets.ts";
import { readEventLosses, readInstance, readLosses } from "./read-instance.ts";
import { ec2Settings } from "./settings.ts";

const boot: BootRequest = {
  nodeName: "elastic-1",
  pool: "elastic",
  instanceType: "m5.large",
  image: "ami-1",
  spot: false,
  zone: undefined,
  gpus: 0,
  volumeGib: undefined,
  privateIpOnly: false,
  labels: { pool: "elastic", "muster.dev/node": "elastic-1" },
  taints: [{ key: "muster.dev/unopened", effect: "NoSchedule" }],
};

describe("user data", () => {
  it("has the node's own name, labels and token at the template's placeholders", () => {
    const template = "a ${MUSTER_NODE_NAME} ${MUSTER_POOL} ${MUSTER_NODE_LABELS} ${MUSTER_BOOTSTRAP_TOKEN} ${OTHER}";
    expect(buildUserData(template, boot, "t.s")).toBe(
      "a elastic-1 elastic muster.dev/node=elastic-1,pool=elastic t.s ${OTHER}",
    );
  });

  it("is refused for an unknown placeholder, and if it is too large", () => {
    expect(() => buildUserData("${MUSTER_NAME}", boot, "")).toThrow("userData: names ${MUSTER_NAME}; there are");
    expect(() => buildUserData("x".repeat(MAX_USER_DATA_BYTES + 1), boot, "")).toThrow("bytes of user data");
  });
});

it.each([
  ["InsufficientInstanceCapacity", "", "other-zone"],
  ["InsufficientFreeAddressesInSubnet", "", "other-subnet"],
  ["Unsupported", "Your requested instance type is not supported in your requested Availability Zone", "other-zone"],
  ["Unsupported", "The requested configuration is currently not supported", "unsupported"],
  ["InvalidInstanceType", "", "unsupported"],
  ["VcpuLimitExceeded", "", "nowhere"],
  ["MaxSpotInstanceCountExceeded", "", "nowhere"],
  ["RequestLimitExceeded", "", "throttled"],
  ["UnauthorizedOperation", "", "other"],
])("a launch refused with %s (%s) means %s", (code, message, kind) => {
  expect(decideLaunchError(code, message)).toEqual({ kind });
});

describe("subnets", () => {
  const subnet = (id: string, more: Partial<Subnet> = {}): Subnet => ({
    id,
    zone: "a",
    freeAddresses: 10,
    isPublic: true,
    ...more,
  });
  const ids = (subnets: readonly Subnet[]): string[] => subnets.map(({ id }) => id);
  const all = [
    subnet("full", { freeAddresses: 0 }),
    subnet("small"),
    subnet("large", { freeAddresses: 90, zone: "b" }),
    subnet("private", { isPublic: false }),
  ];

  it("are tried in the order of their free addresses, the most first", () => {
    expect(ids(planSubnets(all, { zone: undefined, privateIpOnly: false }))).toEqual(["large", "private", "small"]);
  });

  it("are those of the zone, and private ones for a node without a public address", () => {
    expect(ids(planSubnets(all, { zone: "a", privateIpOnly: false }))).toEqual(["private", "small"]);
    expect(ids(planSubnets(all, { zone: undefined, privateIpOnly: true }))).toEqual(["private"]);
  });
});

describe("images", () => {
  it("are the account's own unless an owner or an id is named", () => {
    expect(buildImageFilters({ name: "node-*" })).toMatchObject({ Owners: ["self"] });
    expect(buildImageFilters({ owner: "123", name: "node-*" })).toMatchObject({ Owners: ["123"] });
    expect(buildImageFilters({ id: "ami-1" })).toEqual({
      ImageIds: ["ami-1"],
      Filters: [{ Name: "state", Values: ["available"] }],
    });
  });

  it("are chosen by age: the newest, and one without a date only as the last choice", () => {
    const dated = { ImageId: "dated", CreationDate: "2026-01-01T00:00:00Z" };
    const newer = { ImageId: "newer", CreationDate: "2026-02-01T00:00:00Z" };
    const newest = (...images: Parameters<typeof readImages>[0]) => findNewestImage(readImages(images));
    expect(newest(newer, { ImageId: "undated" }, dated)).toBe("newer");
    expect(newest({ ImageId: "undated" })).toBe("undated");
    expect(newest({ ...newer, ImageId: "a" }, { ...newer, ImageId: "b" })).toBe("b");
    expect(newest()).toBeUndefined();
  });
});

describe("instances", () => {
  it.each([
    ["pending", "pending"],
    ["running", "running"],
    ["shutting-down", "stopping"],
    ["stopping", "stopping"],
    // A stopped instance exists until it is terminated.
    ["stopped", "running"],
    ["terminated", undefined],
  ] as const)("in EC2's state %s are %s", (name, state) => {
    const read = readInstance({ InstanceId: "i-1", State: { Name: name } }, new Map());
    expect(read?.state).toBe(state);
  });

  it("are lost two minutes after EC2 has marked their spot request", () => {
    const marked = { Code: "marked-for-termination", UpdateTime: new Date(1000) };
    const losses = readLosses([
      { InstanceId: "i-1", Status: marked },
      { InstanceId: "i-2", Status: { Code: "fulfilled" } },
    ]);
    expect([...losses]).toEqual([["i-1", 121_000]]);
    expect(readInstance({ InstanceId: "i-1", State: { Name: "running" } }, losses)?.lostAtMs).toBe(121_000);
  });
});

describe("planned events", () => {
  const event = (Code: string, inMs: number, Description = "planned") => ({
    Code: Code as "instance-stop",
    NotBefore: new Date(inMs),
    Description,
  });
  it.each([
    ["a retirement soon", [event("instance-retirement", 900_000)], 900_000],
    ["a stop that is due", [event("instance-stop", -1000)], -1000],
    ["the sooner of two", [event("instance-stop", 5000), event("instance-retirement", 3000)], 3000],
    ["no retirement in a week", [event("instance-retirement", 604_800_000)], undefined],
    ["no reboot", [event("system-reboot", 0), event("instance-reboot", 0)], undefined],
    ["no maintenance of the host", [event("system-maintenance", 0)], undefined],
    ["no completed event", [event("instance-stop", 0, "[Completed] planned")], undefined],
    ["no cancelled event", [event("instance-stop", 0, "[Canceled] planned")], undefined],
    ["no instance without planned events", [], undefined],
  ])("end an instance: %s", (_title, Events, atMs) => {
    expect(readEventLosses([{ InstanceId: "i-1", Events }], 0).get("i-1")).toBe(atMs);
  });
});

describe("settings", () => {
  const good = {
    kind: "ec2",
    region: "eu-central-1",
    controller: "muster",
    subnets: ["subnet-0a"],
    userDataFile: "/etc/muster/user-data",
  };

  it("need a region, a controller, subnets and user data", () => {
    expect(ec2Settings.parse(good)).toMatchObject({ securityGroups: [], tags: {} });
  });

  it.each([
    ["subnets", { subnets: [] }],
    ["subnets.0", { subnets: ["sg-0a"] }],
    ["securityGroups.0", { securityGroups: ["default"] }],
    ["controller", { controller: "Mine!" }],
    ["tags", { tags: { "aws:x": "1" } }],
    ["endpoint", { endpoint: "nowhere" }],
    ["", { secretAccessKey: "x" }],
  ])("are refused with the name of the invalid field: %s", (path, wrong) => {
    const { error } = ec2Settings.safeParse({ ...good, ...wrong });
    expect(error?.issues[0]?.path.join(".")).toMatch(new RegExp(`^${path}`));
  });
});
