import {
  type EC2Client,
  type Filter,
  type Instance as Ec2Instance,
  paginateDescribeInstances,
  paginateDescribeSpotInstanceRequests,
  type SpotInstanceRequest,
} from "@aws-sdk/client-ec2";
import type { Instance } from "../provider.ts";
import { CONTROLLER_TAG } from "./build-launch.ts";
import { LIVE_STATES, readInstance, readLosses } from "./read-instance.ts";

/** The live instances that carry the controller's tag and match the filters, with what EC2 says of those spot instances that it will take away. */
export async function findInstances(
  client: EC2Client,
  { controller, filters = [] }: { readonly controller: string; readonly filters?: readonly Filter[] },
  signal: AbortSignal,
): Promise<readonly Instance[]> {
  const ours = [
    { Name: `tag:${CONTROLLER_TAG}`, Values: [controller] },
    { Name: "instance-state-name", Values: LIVE_STATES },
    ...filters,
  ];
  const found: Ec2Instance[] = [];
  for await (const page of paginateDescribeInstances({ client }, { Filters: ours }, { abortSignal: signal })) {
    found.push(...(page.Reservations ?? []).flatMap(({ Instances = [] }) => Instances));
  }
  const hasSpot = found.some(({ InstanceLifecycle }) => InstanceLifecycle === "spot");
  const losses = hasSpot ? await findLosses(client, signal) : new Map<string, number>();
  return found.flatMap((instance) => readInstance(instance, losses) ?? []);
}

async function findLosses(client: EC2Client, signal: AbortSignal): Promise<ReadonlyMap<string, number>> {
  const marked = { Filters: [{ Name: "status-code", Values: ["marked-for-termination"] }] };
  const requests: SpotInstanceRequest[] = [];
  for await (const page of paginateDescribeSpotInstanceRequests({ client }, marked, { abortSignal: signal })) {
    requests.push(...(page.SpotInstanceRequests ?? []));
  }
  return readLosses(requests);
}
