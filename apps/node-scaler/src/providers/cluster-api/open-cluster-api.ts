import { retryOnConflict } from "@muster/backoff";
import { describeFault, throwFault } from "@muster/faults";
import { toKubeFault, type KubeCalls } from "@muster/kube";
import { buildKinds } from "../../domain/build-kinds.ts";
import type { PoolPolicy } from "../../domain/pool.ts";
import { callProvider } from "../provider-call.ts";
import type { BootRequest, Instance, NodeProvider, BootOutcome } from "../provider.ts";
import { makeClusterApiAccess, type ClusterApiAccess, getReplicas } from "./access.ts";
import { MAX_NODES, withoutNode } from "./held-nodes.ts";
import { buildMachineId, planDeploymentMachines } from "./plan-deployment-machines.ts";
import type { ClusterApiSettings, DeploymentSettings } from "./settings.ts";

type ClusterApiDeps = {
  readonly name: string;
  readonly settings: ClusterApiSettings;
  /** The calls to the management cluster. */
  readonly calls: KubeCalls;
  readonly timeoutMs: number;
};

/** Opens a provider of nodes that Cluster API creates, as replicas of MachineDeployments that only the scaler changes. */
export function openClusterApi({ name, settings, calls, timeoutMs }: ClusterApiDeps): NodeProvider {
  const { controller, namespace, deployments } = settings;
  const access = makeClusterApiAccess(calls, { namespace, controller });
  const call = <T>(doing: string, outer: AbortSignal, body: (signal: AbortSignal) => Promise<T>): Promise<T> =>
    callProvider({ doing, timeoutMs, outer }, toKubeFault, body);

  const start = async (boot: BootRequest, signal: AbortSignal): Promise<BootOutcome> => {
    const fitting = deployments.filter((deployment) => isFor(deployment, boot));
    if (fitting.length === 0) return { kind: "unsupported", message: describeMissing(boot) };
    const held = await Promise.all(fitting.map(async (one) => ({ one, held: await access.read(one.name, signal) })));
    const started = held.find(({ held: { holdings } }) => boot.nodeName in holdings)?.one;
    const [smallest] = held.toSorted((a, b) => getReplicas(a.held) - getReplicas(b.held));
    const chosen = started ?? smallest?.one;
    if (chosen === undefined) throw new Error("no MachineDeployment was chosen out of some");
    await access.change(chosen.name, signal, (holdings) => {
      if (boot.nodeName in holdings) return holdings;
      if (Object.keys(holdings).length >= MAX_NODES) {
        throwFault({ code: "limit_exceeded", what: `nodes of ${chosen.name}`, limit: MAX_NODES, retryAfterMs: 0 });
      }
      return { ...holdings, [boot.nodeName]: null };
    });
    return { kind: "started", instanceId: buildMachineId(chosen.name, boot.nodeName), zone: chosen.zone };
  };

  const stop = async (instance: Pick<Instance, "instanceId" | "nodeName">, signal: AbortSignal): Promise<void> => {
    const deployment = deployments.find(({ name: prefix }) => instance.instanceId.startsWith(`${prefix}/`))?.name;
    // A MachineDeployment that was removed from the block still has its machines.
    if (deployment === undefined)
      return throwFault({ code: "not_found", kind: "MachineDeployment of the provider", id: instance.instanceId });
    const own = instance.instanceId.slice(deployment.length + 1);
    await access.change(deployment, signal, async (holdings) => {
      const isNode = own in holdings;
      const machine = isNode ? holdings[own] : own;
      // The mark is set before the replicas shrink, so that this machine is deleted.
      if (typeof machine === "string") await access.markForDeletion(machine, signal);
      return isNode ? withoutNode(holdings, own) : holdings;
    });
  };

  const listOne = ({ name: deployment, zone }: DeploymentSettings, signal: AbortSignal) => {
    const attempt = async () => {
      const held = await access.read(deployment, signal);
      const plan = planDeploymentMachines(
        { name: deployment, zone },
        held.holdings,
        await access.machines(deployment, signal),
      );
      if (plan.holdings !== held.holdings) await access.write(held, plan.holdings, signal);
      return plan.instances;
    };
    return retryOnConflict(deployment, () => ({ write: attempt }), { faultOf: toKubeFault });
  };

  return {
    name,
    fixedSizeVolumes: false,
    start: (boot, outer) => call(`scaling up for ${boot.nodeName}`, outer, (signal) => start(boot, signal)),
    stop: (instance, outer) => call(`scaling down ${instance.instanceId}`, outer, (signal) => stop(instance, signal)),
    list: (outer) =>
      call("listing machines", outer, async (signal) =>
        (await Promise.all(deployments.map((deployment) => listOne(deployment, signal)))).flat(),
      ),
    checkPool: (pool, outer) =>
      call(`checking pool ${pool.name}`, outer, async (signal) => {
        const own = deployments.filter((deployment) => deployment.pool === pool.name);
        const wrong = await Promise.all(own.map((deployment) => findProblem(access, deployment, signal)));
        return [...findMissing(pool, own), ...wrong.flatMap((problem) => problem ?? [])];
      }),
    // The template of the MachineDeployment sets the image.
    findImage: () => Promise.resolve(""),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}

async function findProblem(
  access: ClusterApiAccess,
  { name }: DeploymentSettings,
  signal: AbortSignal,
): Promise<string | undefined> {
  try {
    await access.read(name, signal);
    return undefined;
  } catch (error) {
    const fault = toKubeFault(error);
    if (fault?.code === "not_found") return `there is no MachineDeployment ${name}`;
    if (fault?.code === "invalid_request") return describeFault(fault);
    throw error;
  }
}

/**
 * The instance types that the pool may request and no MachineDeployment of its block creates. A type that one zone lacks is avoided in all zones for a while.
 */
function findMissing(policy: PoolPolicy, own: readonly DeploymentSettings[]): readonly string[] {
  const { name: pool } = policy;
  return buildKinds(policy).flatMap((kind) => {
    const lacks = (zone: string | undefined): boolean => !own.some((one) => isFor(one, { pool, zone, ...kind }));
    if (lacks(undefined)) return [describeMissing({ pool, zone: undefined, ...kind })];
    return (policy.zones ?? []).filter(lacks).map((zone) => describeMissing({ pool, zone, ...kind }));
  });
}

type Wanted = Pick<BootRequest, "pool" | "instanceType" | "spot" | "zone">;

function isFor({ pool, instanceType, spot, zone }: DeploymentSettings, boot: Wanted): boolean {
  return (
    pool === boot.pool &&
    instanceType === boot.instanceType &&
    spot === boot.spot &&
    (boot.zone === undefined || zone === boot.zone)
  );
}

function describeMissing({ pool, instanceType, spot, zone }: Wanted): string {
  const where = zone === undefined ? "" : ` in ${zone}`;
  return `no MachineDeployment makes ${spot ? "spot " : ""}${instanceType}${where} for pool ${pool}`;
}
