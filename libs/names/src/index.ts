export { matchesLabels, parseLabelSelector } from "./label-selector.ts";
export type { LabelSelector, Requirement } from "./label-selector.ts";
export { API_GROUP } from "./api-group.ts";
export { isMusterKey, JOB_KEYS, JOB_LABEL_KEYS, JOB_ONLY_KEYS, MUSTER_KEYS } from "./muster-keys.ts";
export { checkDnsLabel, checkDnsSubdomain, checkEnvName, checkLabelKey, checkLabelValue } from "./names.ts";
export { otherInstallation } from "./other-installation.ts";
export { isReservedEnvName } from "./reserved-env.ts";
export { mayOccupy, PART_OWNER_CHARACTERS, PART_SEPARATOR } from "./owners.ts";
export type { Owner } from "./owners.ts";
