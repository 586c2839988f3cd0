import { createHash } from "node:crypto";
import type { RunInstancesCommandInput, Tag } from "@aws-sdk/client-ec2";
import { labels } from "@muster/proto";
import type { BootRequest } from "../provider.ts";
import type { Subnet } from "./plan-subnets.ts";
import type { Ec2Settings } from "./settings.ts";

/** The tag that distinguishes the instances of one scaler from those of others in the account. */
export const CONTROLLER_TAG = "muster.dev/controller";
const POOL_TAG = "muster.dev/pool";

export type MachineImage = { readonly id: string; readonly rootDevice: string | undefined };

/** Builds the order of one instance. Sending it twice gives one instance, because its token is derived from the node and the subnet. */
export function buildLaunch(
  settings: Ec2Settings,
  { boot, image, subnet, userData }: { boot: BootRequest; image: MachineImage; subnet: Subnet; userData: string },
): RunInstancesCommandInput {
  const tags = buildTags(settings, boot);
  return {
    MinCount: 1,
    MaxCount: 1,
    ClientToken: createHash("sha256").update(`${settings.controller}/${boot.nodeName}/${subnet.id}`).digest("hex"),
    ImageId: image.id,
    InstanceType: boot.instanceType as RunInstancesCommandInput["InstanceType"],
    UserData: Buffer.from(userData).toString("base64"),
    NetworkInterfaces: [
      {
        DeviceIndex: 0,
        SubnetId: subnet.id,
        DeleteOnTermination: true,
        ...(boot.privateIpOnly ? { AssociatePublicIpAddress: false } : {}),
        ...(settings.securityGroups.length === 0 ? {} : { Groups: [...settings.securityGroups] }),
      },
    ],
    // The instance metadata require a token and stop after one hop. So pods can read neither the credentials of the instance nor the bootstrap token in its
    // user data.
    MetadataOptions: { HttpTokens: "required", HttpPutResponseHopLimit: 1 },
    InstanceInitiatedShutdownBehavior: "terminate",
    TagSpecifications: [
      { ResourceType: "instance", Tags: tags },
      { ResourceType: "volume", Tags: tags },
    ],
    ...(settings.instanceProfile === undefined ? {} : { IamInstanceProfile: { Name: settings.instanceProfile } }),
    ...(boot.spot
      ? {
          InstanceMarketOptions: {
            MarketType: "spot" as const,
            SpotOptions: { SpotInstanceType: "one-time" as const, InstanceInterruptionBehavior: "terminate" as const },
          },
        }
      : {}),
    ...(boot.volumeGib === undefined
      ? {}
      : {
          BlockDeviceMappings: [
            {
              DeviceName: image.rootDevice ?? "/dev/xvda",
              Ebs: {
                VolumeSize: boot.volumeGib,
                VolumeType: "gp3" as const,
                Encrypted: true,
                DeleteOnTermination: true,
              },
            },
          ],
        }),
  };
}

function buildTags(settings: Ec2Settings, boot: BootRequest): Tag[] {
  const tags = {
    ...settings.tags,
    Name: boot.nodeName,
    [CONTROLLER_TAG]: settings.controller,
    [POOL_TAG]: boot.pool,
    [labels.scaledNode]: boot.nodeName,
  };
  return Object.entries(tags).map(([Key, Value]) => ({ Key, Value }));
}
