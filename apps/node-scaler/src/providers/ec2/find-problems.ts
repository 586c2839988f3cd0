import { DescribeInstanceTypesCommand, type EC2Client } from "@aws-sdk/client-ec2";
import type { PoolPolicy } from "../../domain/pool.ts";
import { getAwsErrorCode } from "./aws-fault.ts";
import { planSubnets } from "./plan-subnets.ts";
import type { SubnetCache } from "./subnet-cache.ts";

/** Finds why instances of the pool could never be started: types that the region does not have, zones and addresses that no subnet has. */
export async function findProblems(
  { client, subnets }: { readonly client: EC2Client; readonly subnets: SubnetCache },
  { instanceTypes, zones, privateIpOnly }: PoolPolicy,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const names = instanceTypes.map(({ name }) => name);
  const [unknown, all] = await Promise.all([findUnknownTypes(client, names, signal), subnets.list(signal)]);
  // The launch checks free addresses, because their number changes.
  const fitting = planSubnets(
    all.map((subnet) => ({ ...subnet, freeAddresses: 1 })),
    { zone: undefined, privateIpOnly },
  );
  const places = (zones ?? [])
    .filter((zone) => !fitting.some((subnet) => subnet.zone === zone))
    .map((zone) => `no ${privateIpOnly ? "private " : ""}subnet lies in zone ${zone}`);
  if (fitting.length === 0) places.push("all subnets give public addresses, and privateIpOnly is set");
  return [...unknown.map((name) => `there is no instance type ${name} in the region`), ...places];
}

async function findUnknownTypes(
  client: EC2Client,
  names: readonly string[],
  signal: AbortSignal,
): Promise<readonly string[]> {
  const unknown: string[] = [];
  // Types are requested one by one: an error names its cause only in its text, and concurrent requests would exceed the rate limit of the region.
  for (const name of names) {
    const query = new DescribeInstanceTypesCommand({ InstanceTypes: [name as never] });
    try {
      const { InstanceTypes = [] } = await client.send(query, { abortSignal: signal });
      if (InstanceTypes.length === 0) unknown.push(name);
    } catch (error) {
      if (getAwsErrorCode(error) !== "InvalidInstanceType") throw error;
      unknown.push(name);
    }
  }
  return unknown;
}
