/** The lease and field that a sealed text belongs to. */
export type SealedPlace = {
  readonly kind: "order" | "result";
  /** Id of the lease. */
  readonly id: string;
  /** Owner of the lease. */
  readonly user: string;
  /** Path in the data, such as `secret_env.TOKEN`. */
  readonly field: string;
};

/** Prefix of every sealed text, with the version of the format. */
export const SEALED_PREFIX = "muster-sealed-v1:";
/** The public key of one seal, and its tag. */
const SEAL_BYTES = 48;
const MAX_UTF8_BYTES = 3;

/** Maximum length of a secret before it is sealed. */
export const MAX_SECRET_CHARACTERS = 4096;
/** Maximum length of a sealed secret, in base64. */
export const MAX_SEALED_CHARACTERS =
  SEALED_PREFIX.length + Math.ceil(((MAX_SECRET_CHARACTERS * MAX_UTF8_BYTES + SEAL_BYTES) * 4) / 3);

/** Paths of secrets for the engine (in orders) and for the user (in results); `*` is any name. */
const SECRETS: Readonly<Record<SealedPlace["kind"], Readonly<Record<string, readonly string[]>>>> = {
  order: { container: ["secret_env", "*"], zdb: ["password"] },
  result: { kubernetes: ["kubeconfig"] },
};

/** Whether a text has the form of a sealed one, by and for any key. */
export function isSealed(value: unknown): value is string {
  return typeof value === "string" && value.startsWith(SEALED_PREFIX);
}

/**
 * Replaces each secret in JSON data. Returns the same text if nothing changes, or the text is not JSON. Empty texts are not secrets; non-text values are also
 * passed to `map`.
 */
export function mapSecrets(
  { kind, type, data }: { readonly kind: SealedPlace["kind"]; readonly type: string; readonly data: string },
  map: (secret: unknown, field: string) => unknown,
): string {
  const path = Object.hasOwn(SECRETS[kind], type) ? SECRETS[kind][type] : undefined;
  if (path === undefined) return data;
  const before = parse(data);
  const changed: string[] = [];
  const after = walk(before, path, [], (value, field) => {
    if (value === undefined || value === "") return value;
    const mapped = map(value, field);
    if (mapped !== value) changed.push(field);
    return mapped;
  });
  return changed.length > 0 ? JSON.stringify(after) : data;
}

/**
 * Returns the path of the first plain secret; undefined if all are sealed. Empty: the data is not JSON, so its secrets cannot be found. Such data must not be
 * stored either.
 */
export function findUnsealed(
  kind: SealedPlace["kind"],
  { type, data }: { readonly type: string; readonly data: string },
) {
  let found = Object.hasOwn(SECRETS[kind], type) && parse(data) === undefined ? "" : undefined;
  mapSecrets({ kind, type, data }, (secret, field) => {
    if (!isSealed(secret)) found ??= field;
    return secret;
  });
  return found;
}

function walk(
  value: unknown,
  [name, ...rest]: readonly string[],
  field: readonly string[],
  map: (value: unknown, field: string) => unknown,
): unknown {
  if (name === undefined || !isMapping(value)) return map(value, field.join("."));
  const names = name === "*" ? Object.keys(value) : Object.hasOwn(value, name) ? [name] : [];
  const mapped = names.map((each) => [each, walk(value[each], rest, [...field, each], map)] as const);
  return Object.fromEntries([...Object.entries(value), ...mapped]);
}

function parse(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return undefined;
  }
}

function isMapping(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
