/** Where something sealed belongs. */
export type SealedPlace = {
  readonly kind: "order" | "result";
  /** Of the lease. */
  readonly id: string;
  /** Whose lease it is. */
  readonly user: string;
  /** In its data, such as `secret_env.TOKEN`. */
  readonly field: string;
};

/** How every sealed text begins; the number is that of the way in which it is sealed. */
export const SEALED_PREFIX = "muster-sealed-v1:";
/** A key of the one seal, and a tag, beside the text itself. */
const SEAL_BYTES = 48;
const MAX_UTF8_BYTES = 3;

/** Of a secret before it is sealed. */
export const MAX_SECRET_CHARACTERS = 4096;
/** Of the longest secret once it is sealed, in base64. */
export const MAX_SEALED_CHARACTERS =
  SEALED_PREFIX.length + Math.ceil(((MAX_SECRET_CHARACTERS * MAX_UTF8_BYTES + SEAL_BYTES) * 4) / 3);

/** What of the data is only for the engine (of orders) or for the user (of results); `*` is any name. */
const SECRETS: Readonly<Record<SealedPlace["kind"], Readonly<Record<string, readonly string[]>>>> = {
  order: { container: ["secret_env", "*"], zdb: ["password"] },
  result: { kubernetes: ["kubeconfig"] },
};

/** Whether a text is sealed; nothing is said of by whom and for whom. */
export function isSealed(value: unknown): value is string {
  return typeof value === "string" && value.startsWith(SEALED_PREFIX);
}

/**
 * The data with each secret exchanged, as JSON; the very same text where there is none, and where it is no JSON. An empty text is no secret. What stands in the place of a
 * secret without being a text is handed over, too.
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

/** The first secret that is not sealed, by its name in the data; undefined: there is none. */
export function findUnsealed(
  kind: SealedPlace["kind"],
  { type, data }: { readonly type: string; readonly data: string },
) {
  let found: string | undefined;
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
