const LABEL = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/;
const SUBDOMAIN = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
const SERVICE = /^[a-z]([-a-z0-9]*[a-z0-9])?$/;
const KEY_NAME = /^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$/;
const LABEL_VALUE = /^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$/;
const CONFIG_KEY = /^[-._a-zA-Z0-9]+$/;

/** Each check returns the problem in Kubernetes' words, or nothing. */
export type Check = (value: string) => string | undefined;

export const checkSubdomain: Check = (value) => {
  if (value.length > 253) return "must be no more than 253 characters";
  if (SUBDOMAIN.test(value)) return undefined;
  return "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
};

export const checkLabel: Check = (value) => {
  if (value.length > 63) return "must be no more than 63 characters";
  if (LABEL.test(value)) return undefined;
  return "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
};

export const checkServiceName: Check = (value) => {
  if (value.length > 63) return "must be no more than 63 characters";
  if (SERVICE.test(value)) return undefined;
  return "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
};

/** `name` or `prefix/name`: keys of labels and annotations. */
export const checkLabelKey: Check = (value) => {
  const slash = value.lastIndexOf("/");
  const name = value.slice(slash + 1);
  if (slash === 0) return "prefix part must be non-empty";
  if (slash > 0) {
    const problem = checkSubdomain(value.slice(0, slash));
    if (problem !== undefined) return `prefix part ${problem}`;
  }
  if (name === "") return "name part must be non-empty";
  if (name.length > 63) return "name part must be no more than 63 characters";
  if (KEY_NAME.test(name)) return undefined;
  return "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
};

export const checkLabelValue: Check = (value) => {
  if (value.length > 63) return "must be no more than 63 characters";
  if (LABEL_VALUE.test(value)) return undefined;
  return "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
};

/** Keys of the data of config maps and secrets. */
export const checkConfigKey: Check = (value) => {
  if (value.length > 253) return "must be no more than 253 characters";
  if (value === "." || value === "..") return `must not be '${value}'`;
  if (CONFIG_KEY.test(value)) return undefined;
  return "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
};

/** For kinds whose names only have to fit into a path, such as events. */
export const checkPathSegment: Check = (value) => {
  if (value === "." || value === "..") return `may not be '${value}'`;
  const found = ["/", "%"].find((character) => value.includes(character));
  return found === undefined ? undefined : `may not contain '${found}'`;
};

const SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789";
const LONGEST_PREFIX = 58;

/**
 * Generates a name for `generateName`: without vowels, which avoids words, and with at most 63 characters. `random` returns numbers from 0 up to its argument,
 * exclusive.
 */
export function generateName(prefix: string, random: (below: number) => number): string {
  const suffix = Array.from({ length: 5 }, () => SUFFIX_ALPHABET.charAt(random(SUFFIX_ALPHABET.length)));
  return prefix.slice(0, LONGEST_PREFIX) + suffix.join("");
}
