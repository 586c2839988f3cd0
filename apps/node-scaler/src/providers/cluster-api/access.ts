import { retryOnConflict } from "@muster/backoff";
import { type KubeCalls, toKubeFault, unlessMissing } from "@muster/kube";
import {
  buildHeldNodesPatch,
  DELETE_ANNOTATION,
  type HeldNodes,
  type MachineDeployment,
  readHeldNodes,
} from "./held-nodes.ts";
import { type Machine, parseMachineName } from "./plan-deployment-machines.ts";

/** A MachineDeployment as read, and the nodes that the scaler has in it. */
type HeldDeployment = { readonly object: MachineDeployment; readonly holdings: HeldNodes };

const API = "cluster.x-k8s.io/v1beta2";
const DEPLOYMENT_LABEL = "cluster.x-k8s.io/deployment-name";

export type ClusterApiAccess = {
  read(deployment: string, signal: AbortSignal): Promise<HeldDeployment>;
  /** Rejects with a conflict if the MachineDeployment has changed since it was read. */
  write(held: HeldDeployment, holdings: HeldNodes, signal: AbortSignal): Promise<void>;
  /** Writes as `write` does, and retries on a conflict. `decide` is called for each attempt, and returns its argument if no node changes. */
  change(
    deployment: string,
    signal: AbortSignal,
    decide: (holdings: HeldNodes) => HeldNodes | Promise<HeldNodes>,
  ): Promise<void>;
  machines(deployment: string, signal: AbortSignal): Promise<readonly Machine[]>;
  /** Marks the machine that is deleted first when its MachineDeployment shrinks. A missing machine is no error. */
  markForDeletion(machine: string, signal: AbortSignal): Promise<void>;
};

/** Reads and writes MachineDeployments of this controller, and their machines. */
export function makeClusterApiAccess(
  calls: KubeCalls,
  { namespace, controller }: { readonly namespace: string; readonly controller: string },
): ClusterApiAccess {
  const deploymentsOf = { apiVersion: API, plural: "machinedeployments", namespace };
  const machinesOf = { apiVersion: API, plural: "machines", namespace };

  const read = async (deployment: string, signal: AbortSignal): Promise<HeldDeployment> => {
    const object = await calls.get<MachineDeployment>(deploymentsOf, deployment, { signal });
    return { object, holdings: readHeldNodes(object, controller) };
  };
  const write = async ({ object }: HeldDeployment, holdings: HeldNodes, signal: AbortSignal): Promise<void> => {
    const body = buildHeldNodesPatch(object, holdings, controller);
    await calls.patch(deploymentsOf, parseMachineName(object), { kind: "merge", body }, { signal });
  };
  const change = async (
    deployment: string,
    signal: AbortSignal,
    decide: (holdings: HeldNodes) => HeldNodes | Promise<HeldNodes>,
  ): Promise<void> => {
    const attempt = async (): Promise<void> => {
      const held = await read(deployment, signal);
      const next = await decide(held.holdings);
      if (next === held.holdings && getReplicas(held) === Object.keys(next).length) return;
      await write(held, next, signal);
    };
    await retryOnConflict(deployment, () => ({ write: attempt }), { faultOf: toKubeFault });
  };
  const machines = async (deployment: string, signal: AbortSignal): Promise<readonly Machine[]> => {
    const query = { labelSelector: `${DEPLOYMENT_LABEL}=${deployment}` };
    return (await calls.list<Machine>(machinesOf, { signal, query })).items;
  };
  const markForDeletion = async (machine: string, signal: AbortSignal): Promise<void> => {
    const body = { metadata: { annotations: { [DELETE_ANNOTATION]: "true" } } };
    await unlessMissing(calls.patch(machinesOf, machine, { kind: "merge", body }, { signal }));
  };

  return { read, write, change, machines, markForDeletion };
}

export function getReplicas({ object }: HeldDeployment): number {
  return object.spec?.replicas ?? 1;
}
