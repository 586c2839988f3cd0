import { formatElapsed } from "@muster/faults";
import type { ReplicaSet } from "./replica-set.ts";
import type { TroubleCode } from "./troubles.ts";
import type { Rollout } from "./rollout.ts";

/** A set and its placements. */
type PlacedSet = { readonly set: ReplicaSet; readonly replicas: readonly unknown[] };

/** Advises the user on a trouble; empty: wait. */
export function adviseOnTrouble(code: TroubleCode, placed: PlacedSet, nowMs: number): string {
  const { name, spec, transferNotBeforeMs } = placed.set;
  const { length: replicas } = placed.replicas;
  switch (code) {
    case "TOO_FEW_NODES":
      if (spec.pool !== undefined) return "`muster get reservations` shows the machines that it waits for";
      return adviseOnNode(placed.set, replicas);
    case "NO_ELIGIBLE_NODES":
      return `check nodeSelector ${spec.nodeSelector} against \`kubectl get nodes --show-labels\``;
    case "TRANSFER_FAILED": {
      const audit = `\`muster audit ${name}\` shows what was tried`;
      if (spec.allocationStrategy === "static") return `it is not retried; ${audit}`;
      const pauseMs = transferNotBeforeMs - nowMs;
      return `it is retried${pauseMs > 0 ? ` in ${formatElapsed(pauseMs)}` : ""}; ${audit}`;
    }
    case "POD_REFUSED":
      return "fix the template and `muster apply -f FILE --replace`";
    case "OVERLAP":
      return `\`muster get replica-sets\` shows the other set; give one of them other nodes, or \`muster delete ${name}\``;
    case "WAITING_FOR_MACHINE":
      return [
        `\`muster get reservations\` shows who has the machines of pool ${spec.pool ?? ""}, and \`muster nodes\` what is booting`,
        `\`muster scale ${name} --replicas ${replicas}\` reduces it to the machines that it has`,
      ].join("; ");
    case "MACHINE_REFUSED":
      return `\`muster get pools\` shows the pools and their sizes; name another one in spec.pool, or \`muster scale ${name} --replicas ${replicas}\``;
    case "MACHINES_GONE":
      return [
        "`muster get reservations` shows the machines that the ledger has granted",
        "no action is needed if it lost them: others may get the machines, and the replicas move one by one",
      ].join("; ");
    case "LEDGER_AWAY":
      return "its replicas stay where they are, and it continues once the ledger answers; `muster doctor` checks the reservation-manager";
    case "NOT_HEALTHY":
      return `\`muster get replica-set ${name}\` shows which pods are not ready, and why`;
    case "ROLL_SET_MISSING":
      return `its pods stay as they are; start the farms of the version that wrote the update, or \`muster delete ${name} --force\` removes it with its pods`;
    default:
      return "";
  }
}

/** Advises the user if no eligible node is free. `replicas` is the number for which the set needs no further node. */
export function adviseOnNode({ name, spec }: ReplicaSet, replicas: number): string {
  const selected = spec.nodeSelector === "" ? "it" : spec.nodeSelector;
  return `label, uncordon or add a node for ${selected}, or \`muster scale ${name} --replicas ${replicas}\``;
}

/** Names the command that shows more about a replica that is not ready. */
export function adviseOnReplica(replica: {
  readonly pod: string;
  readonly node: string;
  readonly reason: string;
}): string {
  const { pod, node, reason } = replica;
  if (reason === "NO_POD")
    return `\`kubectl get events --field-selector involvedObject.name=${pod}\` shows how the pod before it ended`;
  if (reason === "NODE_UNUSABLE") return `\`kubectl describe node ${node}\` shows more`;
  return `\`kubectl describe pod ${pod}\` and \`kubectl logs ${pod}\` show more`;
}

/** Names the commands that follow, reverse, resume or finish a rolling update. */
export function adviseOnRollout({ id, undone, phase }: Rollout): string {
  const follow = `\`muster roll status ${id}\` follows it`;
  const isUndone = undone % 2 === 1;
  if (phase === "PAUSED") {
    const other = isUndone ? "redo" : "undo";
    return `${follow}, \`muster roll resume ${id}\` resumes it, \`muster roll ${other} ${id}\` reverses it`;
  }
  return isUndone
    ? `${follow}, \`muster roll undo ${id} --minimum N\` reverses it with a lower minimum`
    : `${follow}, \`muster roll undo ${id}\` reverses it`;
}
