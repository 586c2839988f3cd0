export { checkNodeSelection, type WrittenSelection } from "./check-node-selection.ts";
export { checkSchema } from "./check-schema.ts";
export type { CheckedSchema } from "./check-schema.ts";
export { findUnknownKeys } from "./find-unknown-keys.ts";
export type { UnknownKey } from "./find-unknown-keys.ts";
export { findNearestName } from "./nearest-name.ts";
export { describeUnknownField, describeValue, makeValueReader } from "./read-value.ts";
export type { Finding, Path, ValueReader } from "./read-value.ts";
