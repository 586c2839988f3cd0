export { describeExcluded, describeFault, isRetryable, getReason, WIRE_CODE } from "./fault.ts";
export type { Fault, FaultCode, ShortResource } from "./fault.ts";
export { FaultError, findFault, isFaultError, logLevelOf, throwFault } from "./fault-error.ts";
export { unlessFault, unlessFaultIn, unlessMissing } from "./unless-fault.ts";
export { formatDuration } from "./format-duration.ts";
export { formatElapsed } from "./format-elapsed.ts";
export { parseDuration } from "./parse-duration.ts";
export { assertNever } from "./assert-never.ts";
