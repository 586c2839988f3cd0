export {
  buildEndBytes,
  buildLegacyOrderBytes,
  buildOrderBytes,
  buildRenewalBytes,
  buildResultBytes,
} from "./build-signed-bytes.ts";
export { isLeaseId, splitId } from "./lease-ids.ts";
export {
  MAX_DURATION_NS,
  computeEndNs,
  formatDurationNs,
  formatRfc3339,
  isOver,
  toNanoseconds,
  toNanosecondsFromMs,
  parseDurationNs,
  parseRfc3339,
  toTimestamp,
  waitMsUntil,
} from "./nanoseconds.ts";
export type { EndRequest, Order, Renewal, Result, ResultState } from "./order.ts";
export { findUnsealed, isSealed, mapSecrets, SEALED_PREFIX } from "./secret-fields.ts";
export { parsePublicKey } from "./user-id.ts";
