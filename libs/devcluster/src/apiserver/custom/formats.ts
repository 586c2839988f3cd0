import { isIPv4, isIPv6 } from "node:net";
import { checkLabel, checkSubdomain } from "../names.ts";

/** Whether a text has a format of OpenAPI. Formats that are not here are not checked, as in Kubernetes. */
export const FORMATS: Readonly<Record<string, (text: string) => boolean>> = {
  byte: (text) => text !== "" && /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(text),
  cidr: isCidr,
  date: (text) => /^\d{4}-\d\d-\d\d$/.test(text) && isDay(text),
  "date-time": isDateTime,
  datetime: isDateTime,
  duration: (text) => durationNs(text) !== undefined,
  email: (text) => /^[^\s@<>]+@[^\s@<>]+$/.test(text),
  hexcolor: (text) => /^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$/.test(text),
  hostname: (text) => text.length <= 255 && text.split(".").every((part) => HOST_LABEL.test(part)),
  ipv4: isIPv4,
  ipv6: (text) => isIPv6(text),
  "k8s-long-name": (text) => checkSubdomain(text) === undefined,
  "k8s-short-name": (text) => checkLabel(text) === undefined,
  mac: (text) => /^([0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}$/.test(text),
  password: () => true,
  uri: isRequestUri,
  uuid: (text) => /^[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}$/i.test(text),
  uuid3: (text) => /^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$/i.test(text),
  uuid4: (text) => /^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$/i.test(text),
  uuid5: (text) => /^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$/i.test(text),
};

const HOST_LABEL = /^[a-zA-Z0-9_]([a-zA-Z0-9_-]{0,61}[a-zA-Z0-9_])?$/;
const UNITS_NS: Readonly<Record<string, number>> = {
  ns: 1,
  us: 1e3,
  µs: 1e3,
  ms: 1e6,
  s: 1e9,
  m: 60e9,
  h: 3600e9,
};

/** Go's durations, such as `1h30m` or `-1.5s`, in nanoseconds; undefined for other texts. */
export function durationNs(text: string): number | undefined {
  const body = text.replace(/^[+-]/, "");
  if (body === "0") return 0;
  if (!/^(\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)((\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h))*$/.test(body)) return undefined;
  const parts = [...body.matchAll(/([\d.]+)(ns|us|µs|ms|s|m|h)/g)];
  const total = parts.reduce((sum, [, number, unit]) => sum + Number(number) * (UNITS_NS[unit ?? ""] ?? 0), 0);
  return text.startsWith("-") ? -total : total;
}

export function isCidr(text: string): boolean {
  const [address = "", length = "", ...more] = text.split("/");
  if (more.length > 0 || !/^\d{1,3}$/.test(length)) return false;
  return (isIPv4(address) && Number(length) <= 32) || (isIPv6(address) && Number(length) <= 128);
}

function isDay(text: string): boolean {
  const ms = Date.parse(`${text}T00:00:00Z`);
  return !Number.isNaN(ms) && new Date(ms).toISOString().startsWith(text);
}

function isDateTime(text: string): boolean {
  return (
    /^\d{4}-\d\d-\d\d([Tt ])\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:?\d\d)$/.test(text) &&
    isDay(text.slice(0, 10)) &&
    !Number.isNaN(Date.parse(text.replace(" ", "T")))
  );
}

function isRequestUri(text: string): boolean {
  return (text.startsWith("/") && !/\s/.test(text)) || (/^[a-zA-Z][a-zA-Z0-9+.-]*:/.test(text) && URL.canParse(text));
}
