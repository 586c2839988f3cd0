import type { Fault } from "@muster/faults";
import { isWithdrawable, mayFollow, type NodeSpec, type NodeStatus, type Phase, type ScaledNode } from "./node.ts";

/** A change of one record, as data. It is made only while the record is in the phase that it was decided on. */
export type NodeChange = {
  readonly node: string;
  readonly expected: Phase;
  readonly phase?: Phase;
  readonly spec?: Partial<Pick<NodeSpec, "zone" | "terminate">>;
  readonly status?: Partial<Omit<NodeStatus, "phase" | "phaseSinceMs" | "createdAtMs" | "term">>;
};

export type ChangeVerdict =
  | { readonly do: "write"; readonly node: ScaledNode }
  | { readonly do: "nothing"; readonly because: "gone" | "phase-moved-on" | "ordered-otherwise" | "no-difference" }
  | { readonly do: "refuse"; readonly fault: Fault };

/**
 * What becomes of a record. A node that is to end already keeps its first reason, unless that one counted only for as long as nobody held the node; only such a
 * reason is taken back.
 */
export function decideChange(current: ScaledNode | undefined, change: NodeChange, nowMs: number): ChangeVerdict {
  if (current === undefined) return { do: "nothing", because: "gone" };
  const { phase: before } = current.status;
  if (before !== change.expected) return { do: "nothing", because: "phase-moved-on" };
  const after = change.phase ?? before;
  if (!mayFollow(current.status, after)) {
    const reason = `a node of phase ${before} cannot become ${after}`;
    return { do: "refuse", fault: { code: "invalid_request", field: `node ${current.name}`, reason } };
  }
  const wanted = change.spec ?? {};
  const ordered = current.spec.terminate;
  const isTakenBack = "terminate" in wanted && wanted.terminate === undefined;
  if (isTakenBack && ordered !== undefined && !isWithdrawable(ordered.code))
    return { do: "nothing", because: "ordered-otherwise" };
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
      // One that a clock wrote which was ahead is counted anew.
      phaseSinceMs: after === before ? Math.min(current.status.phaseSinceMs, nowMs) : nowMs,
    },
  };
  return isSame(current, node) ? { do: "nothing", because: "no-difference" } : { do: "write", node };
}

function isSame(one: unknown, other: unknown): boolean {
  if (Object.is(one, other)) return true;
  if (typeof one !== "object" || typeof other !== "object" || one === null || other === null) return false;
  const [left, right] = [new Map(Object.entries(one)), new Map(Object.entries(other))];
  return [...new Set([...left.keys(), ...right.keys()])].every((key) => isSame(left.get(key), right.get(key)));
}
