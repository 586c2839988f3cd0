import { readFile } from "node:fs/promises";
import { DescribeImagesCommand, EC2Client, TerminateInstancesCommand } from "@aws-sdk/client-ec2";
import { throwFault } from "@muster/faults";
import { NodeHttpHandler } from "@smithy/node-http-handler";
import { findNewestImage } from "../newest-image.ts";
import { callProvider } from "../provider-call.ts";
import type { NodeProvider } from "../provider.ts";
import { toAwsFault, getAwsErrorCode } from "./aws-fault.ts";
import { buildImageFilters, readImages } from "./find-image.ts";
import { findProblems } from "./find-problems.ts";
import { listInstances } from "./find-instances.ts";
import { makeFullZones } from "./full-zones.ts";
import { launchInstance } from "./launch.ts";
import type { Ec2Settings } from "./settings.ts";
import { makeSubnetCache } from "./subnet-cache.ts";

export type Ec2Deps = {
  readonly name: string;
  readonly settings: Ec2Settings;
  /** The timeout of one call of the provider, however many requests it takes. */
  readonly timeoutMs: number;
  /** A monotonic clock. */
  readonly now: () => number;
  /** The time by EC2's clock. */
  readonly wallNow: () => number;
  /** The time for which a full zone is not tried. */
  readonly unavailableMs: number;
  /** Creates a bootstrap token for this node. Kubernetes binds it to no node name: until it expires, its holder may join as any node, any number of times. */
  readonly mintToken: (nodeName: string, signal: AbortSignal) => Promise<string>;
};

const MAX_ATTEMPTS = 3;
/** Codes that report a missing instance, or a missing part of it. */
const NOT_THERE = /\.(NotFound|Malformed)$/;

/** Opens a provider of EC2 instances, on demand or spot. Throws if the template of user data is unreadable. */
export async function openEc2({
  name,
  settings,
  timeoutMs,
  now,
  wallNow,
  unavailableMs,
  mintToken,
}: Ec2Deps): Promise<NodeProvider> {
  const template = await readFile(settings.userDataFile, "utf8");
  const client = new EC2Client({
    region: settings.region,
    maxAttempts: MAX_ATTEMPTS,
    requestHandler: new NodeHttpHandler({ connectionTimeout: timeoutMs, requestTimeout: timeoutMs }),
    ...(settings.endpoint === undefined ? {} : { endpoint: settings.endpoint }),
  });
  const subnets = makeSubnetCache(client, settings.subnets, now);
  const launching = { client, settings, template, mintToken, subnets, full: makeFullZones(now, unavailableMs) };
  const { controller } = settings;

  const call = <T>(doing: string, outer: AbortSignal, body: (signal: AbortSignal) => Promise<T>): Promise<T> =>
    callProvider({ doing, timeoutMs, outer }, (error) => toAwsFault(error, { provider: name, doing, timeoutMs }), body);

  return {
    name,
    fixedSizeVolumes: false,
    start: (boot, outer) =>
      call(`starting ${boot.nodeName}`, outer, (signal) => launchInstance(launching, boot, signal)),
    stop: ({ instanceId, nodeName }, outer) =>
      call(`stopping ${nodeName}`, outer, async (signal) => {
        try {
          await client.send(new TerminateInstancesCommand({ InstanceIds: [instanceId] }), { abortSignal: signal });
        } catch (error) {
          if (!NOT_THERE.test(getAwsErrorCode(error))) throw error;
        }
      }),
    list: (outer) =>
      call("listing instances", outer, (signal) => listInstances(client, { controller, nowMs: wallNow() }, signal)),
    findImage: (properties, outer) =>
      call("looking for an image", outer, async (signal) => {
        const query = new DescribeImagesCommand(buildImageFilters(properties));
        const { Images = [] } = await client.send(query, { abortSignal: signal });
        const newest = findNewestImage(readImages(Images));
        if (newest !== undefined) return newest;
        return throwFault({ code: "not_found", kind: "image", id: JSON.stringify(properties) });
      }),
    checkPool: (pool, outer) =>
      call(`checking pool ${pool.name}`, outer, (signal) => findProblems({ client, subnets }, pool, signal)),
    [Symbol.asyncDispose]: () => {
      client.destroy();
      return Promise.resolve();
    },
  };
}
