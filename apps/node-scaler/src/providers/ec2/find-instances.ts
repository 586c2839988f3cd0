import {
  type EC2Client,
  type Filter,
  type Instance as Ec2Instance,
  type InstanceStatus,
  paginateDescribeInstances,
  paginateDescribeInstanceStatus,
  paginateDescribeSpotInstanceRequests,
  type SpotInstanceRequest,
} from "@aws-sdk/client-ec2";
import { labels } from "@muster/proto";
import type { Instance } from "../provider.ts";
import { CONTROLLER_TAG } from "./build-launch.ts";
import { LIVE_STATES, LOSS_EVENTS, readEventLosses, readInstance, readLosses } from "./read-instance.ts";

/** Lists the live instances with the controller's tag, and when EC2 will reclaim them. `nowMs` is the time by EC2's clock. */
export async function listInstances(
  client: EC2Client,
  { controller, nowMs }: { readonly controller: string; readonly nowMs: number },
  signal: AbortSignal,
): Promise<readonly Instance[]> {
  const found = await findLive(client, controller, [], signal);
  if (found.length === 0) return [];
  const hasSpot = found.some(({ InstanceLifecycle }) => InstanceLifecycle === "spot");
  const [events, interruptions] = await Promise.all([
    findEventLosses(client, nowMs, signal),
    hasSpot ? findLosses(client, signal) : new Map<string, number>(),
  ]);
  // An interruption is minutes away, and so earlier than planned events.
  const losses = new Map([...events, ...interruptions]);
  return found.flatMap((instance) => readInstance(instance, losses) ?? []);
}

/** Finds the live instance of a node. Undefined if none exists. */
export async function findInstance(
  client: EC2Client,
  { controller, nodeName }: { readonly controller: string; readonly nodeName: string },
  signal: AbortSignal,
): Promise<Instance | undefined> {
  const ofNode = { Name: `tag:${labels.scaledNode}`, Values: [nodeName] };
  const [found] = await findLive(client, controller, [ofNode], signal);
  return found && readInstance(found, new Map());
}

async function findLive(
  client: EC2Client,
  controller: string,
  filters: readonly Filter[],
  signal: AbortSignal,
): Promise<readonly Ec2Instance[]> {
  const ours = [
    { Name: `tag:${CONTROLLER_TAG}`, Values: [controller] },
    { Name: "instance-state-name", Values: LIVE_STATES },
    ...filters,
  ];
  const found: Ec2Instance[] = [];
  for await (const page of paginateDescribeInstances({ client }, { Filters: ours }, { abortSignal: signal })) {
    found.push(...(page.Reservations ?? []).flatMap(({ Instances = [] }) => Instances));
  }
  return found;
}

async function findLosses(client: EC2Client, signal: AbortSignal): Promise<ReadonlyMap<string, number>> {
  const marked = { Filters: [{ Name: "status-code", Values: ["marked-for-termination"] }] };
  const requests: SpotInstanceRequest[] = [];
  for await (const page of paginateDescribeSpotInstanceRequests({ client }, marked, { abortSignal: signal })) {
    requests.push(...(page.SpotInstanceRequests ?? []));
  }
  return readLosses(requests);
}

/** Reads the whole account, because EC2 cannot filter states by tag. */
async function findEventLosses(
  client: EC2Client,
  nowMs: number,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, number>> {
  const planned = { Filters: [{ Name: "event.code", Values: [...LOSS_EVENTS] }] };
  const statuses: InstanceStatus[] = [];
  for await (const page of paginateDescribeInstanceStatus({ client }, planned, { abortSignal: signal })) {
    statuses.push(...(page.InstanceStatuses ?? []));
  }
  return readEventLosses(statuses, nowMs);
}
