import { pause } from "@muster/backoff";
import { throwFault } from "@muster/faults";
import { type KubeCalls, toKubeFault, type KubeObject, unlessMissing } from "@muster/kube";
import { callProvider } from "../provider-call.ts";
import type { BootRequest, NodeProvider, BootOutcome } from "../provider.ts";
import {
  buildNodeClaim,
  CONTROLLER_LABEL,
  isLaunched,
  NODE_CLAIMS,
  type NodeClaim,
  readNodeClaim,
} from "./node-claim.ts";
import type { KarpenterSettings } from "./settings.ts";

type KarpenterDeps = {
  readonly name: string;
  readonly settings: KarpenterSettings;
  readonly calls: KubeCalls;
  readonly timeoutMs: number;
};

const POLL_MS = 250;
/** The call returns without the outcome of a longer launch, which the list shows later. */
const LAUNCH_WAIT_MS = 5_000;

/** Opens a provider of nodes that Karpenter creates: one NodeClaim for each, outside of every NodePool. */
export function openKarpenter({ name, settings, calls, timeoutMs }: KarpenterDeps): NodeProvider {
  const labelSelector = `${CONTROLLER_LABEL}=${settings.controller}`;
  const call = <T>(doing: string, outer: AbortSignal, body: (signal: AbortSignal) => Promise<T>): Promise<T> =>
    callProvider({ doing, timeoutMs, outer }, toKubeFault, body);

  /** Undefined if no NodeClaim has this name. Throws already_exists for one of another controller. */
  const find = async (nodeName: string, signal: AbortSignal): Promise<NodeClaim | undefined> => {
    const claim = await unlessMissing(calls.get<NodeClaim>(NODE_CLAIMS, nodeName, { signal }));
    if (claim === undefined || claim.metadata?.labels?.[CONTROLLER_LABEL] === settings.controller) return claim;
    return throwFault({ code: "already_exists", kind: "NodeClaim", id: nodeName });
  };

  const start = async (boot: BootRequest, signal: AbortSignal): Promise<BootOutcome> => {
    const wrong = findUnsupported(boot);
    if (wrong !== undefined) return { kind: "unsupported", message: wrong };
    if ((await find(boot.nodeName, signal)) === undefined) {
      await calls.create(NODE_CLAIMS, buildNodeClaim(settings, boot), { signal });
    }
    return { kind: "started", instanceId: boot.nodeName, zone: boot.zone };
  };

  return {
    name,
    fixedSizeVolumes: false,
    start: async (boot, outer) => {
      const started = await call(`creating the NodeClaim ${boot.nodeName}`, outer, (signal) => start(boot, signal));
      if (started.kind !== "started") return started;
      const doing = `looking at the NodeClaim ${boot.nodeName}`;
      return await awaitLaunch({ started, boot, timeoutMs }, outer, () =>
        call(doing, outer, (signal) => find(boot.nodeName, signal)),
      );
    },
    stop: ({ nodeName }, outer) =>
      call(`deleting the NodeClaim ${nodeName}`, outer, async (signal) => {
        const claim = await find(nodeName, signal);
        if (claim === undefined || claim.metadata?.deletionTimestamp !== undefined) return;
        const uid = claim.metadata?.uid;
        const preconditions = uid === undefined ? {} : { preconditions: { uid } };
        await unlessMissing(calls.delete(NODE_CLAIMS, nodeName, { signal, ...preconditions }));
      }),
    list: (outer) =>
      call("listing NodeClaims", outer, async (signal) => {
        const { items } = await calls.list<NodeClaim>(NODE_CLAIMS, { signal, query: { labelSelector } });
        return items.map(readNodeClaim);
      }),
    checkPool: (pool, outer) =>
      call(`checking pool ${pool.name}`, outer, async (signal) => {
        const claims = calls.list<NodeClaim>(NODE_CLAIMS, { signal, query: { labelSelector, limit: "1" } });
        if ((await unlessMissing(claims)) === undefined) return ["the cluster has no NodeClaims: install Karpenter"];
        const wrong = [findUnsupported(pool), await findNodeClassProblem(calls, settings, signal)];
        return wrong.filter((problem) => problem !== undefined);
      }),
    // The node class chooses the image.
    findImage: () => Promise.resolve(""),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}

type StartedNode = BootOutcome & { readonly kind: "started" };

/**
 * Waits for the launch. Karpenter deletes a claim that cannot be launched within seconds. Such a deletion means a shortage of the type, and not a late launch.
 */
async function awaitLaunch(
  {
    started,
    boot,
    timeoutMs,
  }: { readonly started: StartedNode; readonly boot: BootRequest; readonly timeoutMs: number },
  outer: AbortSignal,
  find: () => Promise<NodeClaim | undefined>,
): Promise<BootOutcome> {
  const signal = AbortSignal.any([outer, AbortSignal.timeout(Math.min(LAUNCH_WAIT_MS, timeoutMs / 4))]);
  while (!signal.aborted) {
    const claim = await find();
    if (claim === undefined || claim.metadata?.deletionTimestamp !== undefined) {
      const what = `${boot.spot ? "spot " : ""}${boot.instanceType}`;
      const message = `Karpenter deleted the NodeClaim ${boot.nodeName}: no capacity for ${what}`;
      return { kind: "no-capacity", zone: boot.zone, subnet: undefined, message };
    }
    if (isLaunched(claim)) return { ...started, zone: readNodeClaim(claim).zone ?? started.zone };
    await pause(POLL_MS, signal);
  }
  outer.throwIfAborted();
  return started;
}

const DEFINITIONS = { apiVersion: "apiextensions.k8s.io/v1", plural: "customresourcedefinitions" };

/** Finds problems of the node class. Only the cloud knows its instance types: Karpenter reports on the NodeClaim that no type can be launched. */
async function findNodeClassProblem(
  calls: KubeCalls,
  { nodeClass: { group, kind, name } }: KarpenterSettings,
  signal: AbortSignal,
): Promise<string | undefined> {
  // The plural follows Kubernetes' convention, which every cloud's node class follows.
  const plural = kind.toLowerCase().endsWith("s") ? `${kind.toLowerCase()}es` : `${kind.toLowerCase()}s`;
  const found = await unlessMissing(calls.get<Definition>(DEFINITIONS, `${plural}.${group}`, { signal }));
  const version = found?.spec?.versions?.find(({ storage }) => storage === true)?.name;
  if (version === undefined) return `the cluster has no node class of kind ${kind} in ${group}`;
  const resource = { apiVersion: `${group}/${version}`, plural };
  const there = await unlessMissing(calls.get(resource, name, { signal }));
  return there === undefined ? `there is no ${kind} ${name}` : undefined;
}

type Definition = KubeObject & {
  readonly spec?: { readonly versions?: readonly { readonly name: string; readonly storage?: boolean }[] };
};

/** Finds settings that a NodeClaim does not have; the node class sets them for all its nodes. */
function findUnsupported({
  volumeGib,
  privateIpOnly,
}: Pick<BootRequest, "volumeGib" | "privateIpOnly">): string | undefined {
  if (volumeGib !== undefined) return "the node class sets the size of volumes: omit `volume` of the pool";
  if (privateIpOnly) return "the node class sets addresses: omit `privateIpOnly` of the pool";
  return undefined;
}
