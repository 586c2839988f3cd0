export { API_GROUP } from "./api-group.ts";
export { checkDnsLabel, checkDnsSubdomain, checkEnvName, checkLabelKey, checkLabelValue } from "./names.ts";
export { isReservedEnvName } from "./reserved-env.ts";
