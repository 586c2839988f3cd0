import type { Result } from "@muster/leases";

/** Year 1, which the original writes for a time that was never set. */
const ZERO_TIME_NS = -62_135_596_800n * 1_000_000_000n;

/** Whether a result was never produced. Its state and type do not count: controllers fill them in where there is nothing. */
export function isNilResult({ createdNs, data }: Pick<Result, "createdNs" | "data">): boolean {
  return (createdNs === 0n || createdNs === ZERO_TIME_NS) && (data === "" || data === "null");
}
