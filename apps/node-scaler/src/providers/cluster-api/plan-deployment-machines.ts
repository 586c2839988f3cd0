import type { KubeObject } from "@muster/kube";
import type { Instance } from "../provider.ts";
import { DELETE_ANNOTATION, type HeldNodes } from "./held-nodes.ts";

export type Machine = KubeObject & {
  readonly status?: {
    readonly phase?: string;
    readonly nodeRef?: { readonly name?: string };
    readonly addresses?: readonly { readonly address: string }[];
  };
};

type MachinesPlan = {
  /** The nodes, with machines assigned to waiting nodes. Returns the same object without a change. */
  readonly holdings: HeldNodes;
  readonly instances: readonly Instance[];
};

/**
 * Assigns each waiting node an unassigned machine, the oldest first, and lists the instances. A node whose machine is gone is not listed: the replacement that
 * the MachineSet creates is a new, unassigned machine.
 */
export function planDeploymentMachines(
  deployment: { readonly name: string; readonly zone: string | undefined },
  before: HeldNodes,
  machines: readonly Machine[],
): MachinesPlan {
  const byName = new Map(machines.map((machine) => [parseMachineName(machine), machine]));
  const holdings = assign(before, machines);
  const held = new Set(Object.values(holdings));
  const instance = (nodeName: string, machine: Machine | undefined): Instance => ({
    ...readMachine(machine),
    instanceId: buildMachineId(deployment.name, nodeName === "" ? parseMachineName(machine) : nodeName),
    nodeName,
    zone: deployment.zone,
  });
  const ofNodes = Object.entries(holdings).flatMap(([nodeName, machineName]) => {
    if (machineName === null) return [instance(nodeName, undefined)];
    const machine = byName.get(machineName);
    return machine === undefined ? [] : [instance(nodeName, machine)];
  });
  const ofNobody = machines
    .filter((machine) => !held.has(parseMachineName(machine)))
    .map((machine) => instance("", machine));
  return { holdings, instances: [...ofNodes, ...ofNobody] };
}

/** Returns the id of a node's instance, which is equal before and after its machine is known. */
export function buildMachineId(deployment: string, nodeName: string): string {
  return `${deployment}/${nodeName}`;
}

export function parseMachineName(object: KubeObject | undefined): string {
  return object?.metadata?.name ?? "";
}

function assign(before: HeldNodes, machines: readonly Machine[]): HeldNodes {
  const held = new Set(Object.values(before));
  const free = machines
    .filter((machine) => !held.has(parseMachineName(machine)) && !isBeingDeleted(machine))
    .toSorted(compareAges);
  const waiting = Object.keys(before).filter((name) => before[name] === null);
  if (free.length === 0 || waiting.length === 0) return before;
  const given = waiting.slice(0, free.length).map((name, index) => [name, parseMachineName(free[index])]);
  return { ...before, ...Object.fromEntries(given) } as HeldNodes;
}

/** Whether the machine is being deleted or is marked for deletion: a node with this machine would lose it. */
function isBeingDeleted({ metadata }: Machine): boolean {
  return metadata?.deletionTimestamp !== undefined || metadata?.annotations?.[DELETE_ANNOTATION] !== undefined;
}

function compareAges(one: Machine, other: Machine): number {
  const [first, second] = [one, other].map(
    ({ metadata }) => `${String(metadata?.creationTimestamp ?? "")} ${metadata?.name ?? ""}`,
  );
  return (first ?? "") < (second ?? "") ? -1 : 1;
}

function readMachine(
  machine: Machine | undefined,
): Pick<Instance, "state" | "addresses" | "kubernetesNode" | "lostAtMs" | "failure"> {
  const { phase, nodeRef, addresses = [] } = machine?.status ?? {};
  const deletedAt = machine?.metadata?.deletionTimestamp;
  return {
    state: deletedAt !== undefined ? "stopping" : phase === "Running" ? "running" : "pending",
    addresses: addresses.map(({ address }) => address),
    kubernetesNode: nodeRef?.name,
    lostAtMs: deletedAt === undefined ? undefined : Date.parse(String(deletedAt)),
    failure: phase === "Failed" ? `the phase of machine ${parseMachineName(machine)} is Failed` : undefined,
  };
}
