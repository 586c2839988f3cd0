import type { Order, Result } from "@muster/leases";

/** Builds the result of an order: the JSON from provisioning, or the error text. The caller signs it before it sends it. */
export function buildResult(
  { id, type }: Pick<Order, "id" | "type">,
  outcome: { readonly data: string } | { readonly error: string },
  nowNs: bigint,
): Omit<Result, "signature"> {
  return "data" in outcome
    ? { id, type, createdNs: nowNs, state: "ok", message: "", data: outcome.data }
    : { id, type, createdNs: nowNs, state: "error", message: outcome.error, data: "null" };
}
