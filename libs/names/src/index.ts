export { matchesLabels, parseLabelSelector, readLabelSelector } from "./label-selector.ts";
export type { LabelSelector, Requirement } from "./label-selector.ts";
export { API_GROUP } from "./api-group.ts";
export { buildBatchOwnerId, canBeOwner } from "./batch-job-owner.ts";
export { BATCH_JOB, BATCH_KINDS, JOB_SET, QUEUED_POD } from "./batch-kinds.ts";
export type { BatchKind } from "./batch-kinds.ts";
export { JOB, JOB_KINDS } from "./job-kinds.ts";
export { isMusterKey, JOB_KEYS, JOB_LABEL_KEYS, JOB_ONLY_KEYS, MUSTER_KEYS } from "./muster-keys.ts";
export {
  checkDnsLabel,
  checkDnsSubdomain,
  checkEnvName,
  checkLabelKey,
  checkLabelValue,
  checkTopology,
} from "./check-names.ts";
export { findOtherInstallation } from "./other-installation.ts";
export { buildLabelPart } from "./label-part.ts";
export {
  buildSessionElsewhereId,
  isNamespaceOfOwner,
  isSessionElsewhere,
  isSessionIn,
  SESSION,
} from "./session-owner.ts";
export { computeShortHash } from "./short-hash.ts";
export { isReservedEnvName } from "./reserved-env.ts";
export { canOccupy, PART_OWNER_CHARACTERS, PART_SEPARATOR } from "./owners.ts";
export type { Owner } from "./owners.ts";
