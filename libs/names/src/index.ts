export { checkDnsLabel, checkDnsSubdomain, checkEnvName, checkLabelKey, checkLabelValue } from "./names.ts";
export { isReservedEnvName } from "./reserved-env.ts";
