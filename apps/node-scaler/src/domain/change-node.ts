import type { Fault } from "@muster/faults";
import { isWithdrawable, mayFollow, type NodeSpec, type NodeStatus, type NodePhase, type ScaledNode } from "./node.ts";

/** A change of one record, as data. It applies only while the record is in the expected phase. */
export type NodeChange = {
  readonly node: string;
  readonly expected: NodePhase;
  readonly phase?: NodePhase;
  readonly spec?: Partial<Pick<NodeSpec, "zone" | "terminate">>;
  readonly status?: Partial<Omit<NodeStatus, "phase" | "phaseSinceMs" | "createdAtMs" | "term">>;
};

type ChangeVerdict =
  | { readonly kind: "write"; readonly node: ScaledNode }
  | { readonly kind: "nothing"; readonly because: "gone" | "phase-moved-on" | "ordered-otherwise" | "no-difference" }
  | { readonly kind: "refuse"; readonly fault: Fault };

/** Applies a change to a record. A node that is to end keeps its first reason. Only a withdrawable reason is replaced or removed. */
export function decideChange(current: ScaledNode | undefined, change: NodeChange, nowMs: number): ChangeVerdict {
  if (current === undefined) return { kind: "nothing", because: "gone" };
  const { phase: before } = current.status;
  if (before !== change.expected) return { kind: "nothing", because: "phase-moved-on" };
  const after = change.phase ?? before;
  if (!mayFollow(current.status, after)) {
    const reason = `a node of phase ${before} cannot become ${after}`;
    return { kind: "refuse", fault: { code: "invalid_request", field: `node ${current.name}`, reason } };
  }
  const wanted = change.spec ?? {};
  const ordered = current.spec.terminate;
  const isWithdrawal = "terminate" in wanted && wanted.terminate === undefined;
  if (isWithdrawal && ordered !== undefined && !isWithdrawable(ordered.code))
    return { kind: "nothing", because: "ordered-otherwise" };
  const keepsOrder =
    ordered !== undefined &&
    wanted.terminate !== undefined &&
    wanted.terminate.code !== ordered.code &&
    (!isWithdrawable(ordered.code) || isWithdrawable(wanted.terminate.code));
  const terminate = keepsOrder ? { terminate: ordered } : {};
  const node: ScaledNode = {
    name: current.name,
    spec: { ...current.spec, ...wanted, ...terminate },
    status: {
      ...current.status,
      ...change.status,
      phase: after,
      // The clock of an earlier writer was ahead, so the phase starts now.
      phaseSinceMs: after === before ? Math.min(current.status.phaseSinceMs, nowMs) : nowMs,
    },
  };
  return isSame(current, node) ? { kind: "nothing", because: "no-difference" } : { kind: "write", node };
}

function isSame(one: unknown, other: unknown): boolean {
  if (Object.is(one, other)) return true;
  if (typeof one !== "object" || typeof other !== "object" || one === null || other === null) return false;
  const [left, right] = [new Map(Object.entries(one)), new Map(Object.entries(other))];
  return [...new Set([...left.keys(), ...right.keys()])].every((key) => isSame(left.get(key), right.get(key)));
}
