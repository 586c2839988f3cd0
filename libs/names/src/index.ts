export { checkDnsLabel, checkDnsSubdomain, checkEnvName, checkLabelKey, checkLabelValue } from "./names.ts";
