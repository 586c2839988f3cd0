import { describeFault, findFault } from "@muster/faults";
import { NodeService, ReservationService } from "@muster/proto";
import { isTainted } from "../domain/build-node-views.ts";
import type { DemandScaling, ListedNode, MachineState, ScalerDump } from "../adapters/node-messages.ts";
import type { ServiceLink } from "../kinds/kind.ts";
import { CALL_TIMEOUT_MS, readPages } from "./read-pages.ts";
import { toDemandScaling, toScalerDump, toMachineState, toListedNode, toStaticNode } from "./node-messages.ts";

/** The timeout of a call whose answer is optional. */
const EXTRA_TIMEOUT_MS = 2000;
/** The timeout of an optional call in a command that users repeat often. */
const BRIEF_TIMEOUT_MS = 500;

/** Calls the node scaler. Every call rejects only with FaultError. */
export function makeNodeCalls(link: ServiceLink) {
  const { client, stop } = link;
  const nodes = client(NodeService);
  const options = { timeoutMs: CALL_TIMEOUT_MS, signal: stop };
  const records = (pool: string) =>
    readPages(
      (page) => nodes.listNodes({ pool, ...page }, options),
      "nodes",
      (record) => record,
    );
  return {
    /** Lists the nodes of one pool, or of all pools. */
    list: async (pool = "") => (await records(pool)).map((record) => toListedNode(record)),
    /**
     * Lists the nodes with the machine states of the ledger if it answers, and then the nodes of pools that the scaler did not create. `trouble` states that
     * the scaler does not answer. Rejects with its fault if the ledger has no node either.
     */
    listWithMachines: async (pool = ""): Promise<NodeList> => {
      const [listed, machines] = await Promise.all([records(pool).catch(faultOrThrow), machineStates(link, pool)]);
      if (!Array.isArray(listed) && machines.size === 0) throw listed.error;
      const made = Array.isArray(listed) ? listed : [];
      const known = new Set(made.flatMap(({ name, kubernetesNode }) => [name, kubernetesNode]));
      const others = [...machines.values()].filter(({ node }) => !known.has(node));
      return {
        nodes: [
          ...made.map((record) => toListedNode(record, machines.get(record.kubernetesNode))),
          ...others.map(toStaticNode),
        ],
        trouble: Array.isArray(listed) ? undefined : troubleOf(listed.error),
      };
    },
    dump: async () => toScalerDump(await nodes.dumpNodes({}, options)),
    terminate: async (name: string, requestedBy: string) => {
      const { node } = await nodes.terminateNode({ requestId: crypto.randomUUID(), name, requestedBy }, options);
      return toListedNode(node);
    },
  };
}

type NodeList = { readonly nodes: readonly ListedNode[]; readonly trouble: string | undefined };

/** A FaultError of an interrupt is thrown, because it ends the command. */
function faultOrThrow(error: unknown): { readonly error: unknown } {
  if (findFault(error)?.code !== "unavailable") throw error;
  return { error };
}

/** Returns machine states by node; the map is empty if the ledger does not answer, because the list of nodes is useful without them. */
async function machineStates({ client, stop }: ServiceLink, pool: string): Promise<ReadonlyMap<string, MachineState>> {
  const ledger = client(ReservationService);
  const options = { timeoutMs: BRIEF_TIMEOUT_MS, signal: stop };
  const asked = readPages((page) => ledger.listMachines({ pool, ...page }, options), "machines", toMachineState);
  return asked.then(
    (machines) => new Map(machines.map((machine) => [machine.node, machine])),
    (error: unknown) => {
      // An interrupt ends the command.
      if (findFault(error)?.code === "cancelled") throw error;
      return new Map<string, MachineState>();
    },
  );
}

/** Counts the tainted nodes of one pool; undefined: the ledger does not answer. */
export async function countTainted(link: ServiceLink, pool: string): Promise<number | undefined> {
  const machines = await machineStates(link, pool);
  return machines.size === 0 ? undefined : [...machines.values()].filter(isTainted).length;
}

/** Returns the scaler's work for an owner that waits. A scaler that does not answer is a result here: everything else works without one. */
export async function readDemandScaling(
  { client, stop }: ServiceLink,
  owner: { readonly kind: string; readonly id: string },
): Promise<DemandScaling> {
  const asked = client(NodeService).explainDemand({ owner }, { timeoutMs: EXTRA_TIMEOUT_MS, signal: stop });
  return asked.then(toDemandScaling, (error: unknown) => ({ state: "unanswered", trouble: troubleOf(error) }));
}

/** Reads how pools are scaled, or why the scaler does not answer. */
export async function readScalerDump({
  client,
  stop,
}: ServiceLink): Promise<{ readonly value: ScalerDump } | { readonly trouble: string }> {
  const asked = client(NodeService).dumpNodes({}, { timeoutMs: EXTRA_TIMEOUT_MS, signal: stop });
  return asked.then(
    (reply) => ({ value: toScalerDump(reply) }),
    (error: unknown) => ({ trouble: troubleOf(error) }),
  );
}

/** Returns the trouble that a fault describes. Rethrows a defect and an interrupt. */
function troubleOf(error: unknown): string {
  const fault = findFault(error);
  if (fault === undefined || fault.code === "cancelled") throw error;
  const isAlone = fault.code === "unavailable" && fault.dependency === "node";
  return isAlone ? "no replica of it is connected as the leader" : describeFault(fault);
}
