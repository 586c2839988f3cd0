import { DescribeImagesCommand, type EC2Client, RunInstancesCommand } from "@aws-sdk/client-ec2";
import type { BootRequest, BootOutcome } from "../provider.ts";
import { getAwsErrorCode } from "./aws-fault.ts";
import { buildLaunch, type MachineImage } from "./build-launch.ts";
import { buildUserData } from "./build-user-data.ts";
import { decideLaunchError } from "./decide-launch-error.ts";
import { findInstance } from "./find-instances.ts";
import { planSubnets, type Subnet } from "./plan-subnets.ts";
import type { FullZones } from "./full-zones.ts";
import type { Ec2Settings } from "./settings.ts";
import type { SubnetCache } from "./subnet-cache.ts";

type LaunchDeps = {
  readonly client: EC2Client;
  readonly settings: Ec2Settings;
  readonly subnets: SubnetCache;
  readonly full: FullZones;
  /** The template of user data. */
  readonly template: string;
  readonly mintToken: (nodeName: string, signal: AbortSignal) => Promise<string>;
};

/** Another location may have capacity. */
type Elsewhere = { readonly kind: "other-subnet" } | { readonly kind: "other-zone" };

type Order = {
  readonly boot: BootRequest;
  readonly image: MachineImage;
  readonly subnet: Subnet;
  readonly userData: string;
};

/** Starts the node's instance in the first subnet with capacity. Finds an instance that was started earlier. */
export async function launchInstance(deps: LaunchDeps, boot: BootRequest, signal: AbortSignal): Promise<BootOutcome> {
  const { client, settings, subnets, full, template, mintToken } = deps;
  // The token of an order binds it to one subnet, and the first subnet changes with time.
  const ofNode = { controller: settings.controller, nodeName: boot.nodeName };
  const earlier = await findInstance(client, ofNode, signal);
  if (earlier !== undefined) return { kind: "started", instanceId: earlier.instanceId, zone: earlier.zone };

  const all = await subnets.list(signal);
  if (boot.zone !== undefined && !all.some(({ zone }) => zone === boot.zone)) return unknownZone(boot.zone, all);
  const candidates = planSubnets(all, boot).filter(({ zone }) => !full.has(boot, zone));
  if (candidates.length === 0) return noRoom(settings, boot);
  const image = await readImage(client, boot.image, signal);
  const userData = buildUserData(template, boot, await mintToken(boot.nodeName, signal));
  for (const subnet of candidates) {
    if (full.has(boot, subnet.zone)) continue;
    const outcome = await tryLaunch(deps, { boot, image, subnet, userData }, signal);
    if (outcome.kind !== "other-subnet" && outcome.kind !== "other-zone") return outcome;
    if (outcome.kind === "other-zone") full.add(boot, subnet.zone);
    subnets.refresh();
  }
  return noRoom(settings, boot);
}

function unknownZone(zone: string, all: readonly Subnet[]): BootOutcome {
  const zones = [...new Set(all.map((subnet) => subnet.zone))].sort().join(", ");
  const message = `zone: no subnet lies in ${zone}; the subnets are in ${zones}`;
  return { kind: "no-capacity", zone, subnet: undefined, message, isUnknownZone: true };
}

function noRoom({ subnets }: Ec2Settings, { instanceType, spot, zone }: BootRequest): BootOutcome {
  const where = zone === undefined ? "any subnet" : `any subnet in ${zone}`;
  const message = `no room for ${spot ? "spot " : ""}${instanceType} in ${where} of ${subnets.join(", ")}`;
  return { kind: "no-capacity", zone, subnet: undefined, message };
}

async function readImage(client: EC2Client, id: string, signal: AbortSignal): Promise<MachineImage> {
  const { Images = [] } = await client.send(new DescribeImagesCommand({ ImageIds: [id] }), { abortSignal: signal });
  return { id, rootDevice: Images[0]?.RootDeviceName };
}

async function tryLaunch(
  { client, settings }: LaunchDeps,
  order: Order,
  signal: AbortSignal,
): Promise<BootOutcome | Elsewhere> {
  try {
    const made = await client.send(new RunInstancesCommand(buildLaunch(settings, order)), { abortSignal: signal });
    const instanceId = made.Instances?.[0]?.InstanceId;
    if (instanceId === undefined) throw new Error("RunInstances answered without an instance");
    return { kind: "started", instanceId, zone: order.subnet.zone };
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    const { kind } = decideLaunchError(getAwsErrorCode(error), message);
    if (kind === "other-subnet" || kind === "other-zone") return { kind };
    if (kind === "nowhere") return { kind: "no-capacity", zone: undefined, subnet: undefined, message };
    if (kind === "unsupported") return { kind, message };
    throw error;
  }
}
