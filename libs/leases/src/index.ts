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
  durationOf,
  endOf,
  formatDurationNs,
  formatRfc3339,
  isOver,
  nsFrom,
  nsFromMs,
  parseDurationNs,
  parseRfc3339,
  timestampOf,
  waitMsUntil,
} from "./nanoseconds.ts";
export type { SecondsAndNanos } from "./nanoseconds.ts";
export type { EndRequest, Order, Renewal, Result, ResultState } from "./order.ts";
export {
  findUnsealed,
  isSealed,
  mapSecrets,
  MAX_SEALED_CHARACTERS,
  SEALED_PREFIX,
  MAX_SECRET_CHARACTERS,
} from "./secret-fields.ts";
export type { SealedPlace } from "./secret-fields.ts";
export { streamCounts } from "./stream-counts.ts";
export { publicKeyOf, userIdOf } from "./user-id.ts";
