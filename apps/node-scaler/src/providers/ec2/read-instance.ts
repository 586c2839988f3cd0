import type { Instance as Ec2Instance, InstanceStatus, SpotInstanceRequest } from "@aws-sdk/client-ec2";
import { labels } from "@muster/proto";
import type { Instance, InstanceState } from "../provider.ts";

/** The time from the notice of an interruption to the interruption. */
const SPOT_NOTICE_MS = 120_000;
/** Planned events are known weeks in advance; an instance counts as usable until this time before. */
const EVENT_AHEAD_MS = 900_000;

/** Planned events that end the instance; after a reboot, of itself or of its host, it continues. */
export const LOSS_EVENTS: readonly string[] = ["instance-stop", "instance-retirement"];

const STATES: Readonly<Record<string, InstanceState>> = {
  pending: "pending",
  running: "running",
  stopping: "stopping",
  // A stopped instance, unlike one that is shutting down, does not disappear by itself.
  stopped: "running",
  "shutting-down": "stopping",
};

/** The states of existing instances. */
export const LIVE_STATES = Object.keys(STATES);

/** Returns undefined if the instance no longer exists. */
export function readInstance(
  instance: Ec2Instance,
  losses: ReadonlyMap<string, number>,
): (Instance & { readonly instanceId: string }) | undefined {
  const state = STATES[instance.State?.Name ?? ""];
  const { InstanceId: instanceId } = instance;
  if (state === undefined || instanceId === undefined) return undefined;
  return {
    instanceId,
    nodeName: instance.Tags?.find(({ Key }) => Key === labels.scaledNode)?.Value ?? "",
    state,
    zone: instance.Placement?.AvailabilityZone,
    addresses: [instance.PrivateIpAddress, instance.PublicIpAddress].filter((address) => address !== undefined),
    // The label `muster.dev/node` of the Kubernetes node identifies the instance.
    kubernetesNode: undefined,
    lostAtMs: losses.get(instanceId),
    failure: undefined,
  };
}

/** Returns when the instances of these spot requests will be reclaimed. */
export function readLosses(requests: readonly SpotInstanceRequest[]): ReadonlyMap<string, number> {
  return new Map(
    requests.flatMap(({ InstanceId, Status }) =>
      InstanceId !== undefined && Status?.Code === "marked-for-termination"
        ? [[InstanceId, (Status.UpdateTime?.getTime() ?? 0) + SPOT_NOTICE_MS] as const]
        : [],
    ),
  );
}

/** Returns when planned events end instances, if that is soon. */
export function readEventLosses(statuses: readonly InstanceStatus[], nowMs: number): ReadonlyMap<string, number> {
  return new Map(
    statuses.flatMap(({ InstanceId, Events = [] }) => {
      const times = Events.filter(
        ({ Code, Description = "" }) =>
          // A past event is listed for another week; only its text marks it.
          LOSS_EVENTS.includes(Code ?? "") && !/^\[(Completed|Canceled)\]/.test(Description),
      ).flatMap(({ NotBefore }) => NotBefore?.getTime() ?? []);
      const soonest = Math.min(...times);
      return InstanceId !== undefined && soonest - nowMs <= EVENT_AHEAD_MS ? [[InstanceId, soonest] as const] : [];
    }),
  );
}
