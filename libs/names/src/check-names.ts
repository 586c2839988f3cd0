import type { Fault } from "@muster/faults";

type Checked = Fault | undefined;

const DNS_LABEL = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/;
const LABEL_VALUE = /^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$/;
const ENV_NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** Checks names of sessions, components, pods: RFC 1123 labels. Returns the problem, or nothing. */
export function checkDnsLabel(field: string, value: string, maxLength = 63): Checked {
  if (value === "") return wrong(field, "is empty; a name of lower case letters, digits and '-' is needed");
  if (value.length > maxLength) return wrong(field, `"${value}" has ${value.length} characters; ${maxLength} at most`);
  if (DNS_LABEL.test(value)) return undefined;
  return wrong(
    field,
    `"${value}" is not a DNS label: lower case letters, digits and '-', beginning and ending with a letter or digit`,
  );
}

/** Names of nodes and of most Kubernetes objects: DNS labels joined by dots, 253 characters at most. */
export function checkDnsSubdomain(field: string, value: string): Checked {
  if (value.length > 253) return wrong(field, `"${value.slice(0, 20)}..." has ${value.length} characters; 253 at most`);
  const parts = value.split(".");
  if (parts.every((part) => DNS_LABEL.test(part))) return undefined;
  return wrong(field, `"${value}" is not a DNS name: lower case letters, digits, '-' and '.'`);
}

/** Values of labels, and so names of pools: at most 63 characters, may be empty. */
export function checkLabelValue(field: string, value: string): Checked {
  if (value.length > 63) return wrong(field, `"${value.slice(0, 20)}..." has ${value.length} characters; 63 at most`);
  if (LABEL_VALUE.test(value)) return undefined;
  return wrong(
    field,
    `"${value}" is not a label value: letters, digits, '-', '_' and '.', beginning and ending with a letter or digit`,
  );
}

/** Keys of labels: an optional DNS name and '/', then a name of 1 to 63 characters. */
export function checkLabelKey(field: string, value: string): Checked {
  const slash = value.indexOf("/");
  const name = value.slice(slash + 1);
  const prefixed = slash < 0 || checkDnsSubdomain(field, value.slice(0, slash)) === undefined;
  if (prefixed && name !== "" && checkLabelValue(field, name) === undefined) return undefined;
  return wrong(
    field,
    `"${value}" is not a label key: an optional DNS name and '/', then 1 to 63 letters, digits, '-', '_' and '.'`,
  );
}

/** Checks a topology: the key of a node label that has one value on all machines of an owner. */
export function checkTopology(field: string, value: string): Checked {
  if (checkLabelKey(field, value) === undefined) return undefined;
  return wrong(field, `must be the label of nodes, such as topology.kubernetes.io/zone, not "${value}"`);
}

export function checkEnvName(field: string, value: string): Checked {
  if (ENV_NAME.test(value)) return undefined;
  return wrong(
    field,
    `"${value}" is not a name for an environment variable: letters, digits and '_', not beginning with a digit`,
  );
}

function wrong(field: string, reason: string): Fault {
  return { code: "invalid_request", field, reason };
}
