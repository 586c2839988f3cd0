import type { Order, Result } from "@muster/leases";

/** What is told of an order: JSON of what provisioning gave, or the text of an error. Whoever tells it signs it first. */
export function buildResult(
  { id, type }: Pick<Order, "id" | "type">,
  outcome: { readonly data: string } | { readonly error: string },
  nowNs: bigint,
): Omit<Result, "signature"> {
  return "data" in outcome
    ? { id, type, createdNs: nowNs, state: "ok", message: "", data: outcome.data }
    : { id, type, createdNs: nowNs, state: "error", message: outcome.error, data: "null" };
}
