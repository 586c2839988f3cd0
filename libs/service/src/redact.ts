/** Field names that must not reach a log. */
const SECRETS: ReadonlySet<string> = new Set([
  "token",
  "password",
  "authorization",
  "seed",
  "nkey",
  "privateKey",
  "secret",
  "kubeconfig",
]);
/** In the line itself and two objects deep: a fault carries its cause, and both carry their input. */
export const LEVELS = 3;
const CENSOR = "[Redacted]";

/**
 * Returns the same object if it has no secret field; otherwise a copy that shares all but the objects around secrets. Skips errors, which have their own
 * serializer.
 */
export function redactFields(fields: object, levels = LEVELS): object {
  let copy: object | undefined;
  for (const [name, value] of Object.entries(fields)) {
    const safe = SECRETS.has(name) ? CENSOR : redactValue(value, levels - 1);
    if (safe === value) continue;
    copy ??= Object.assign(Array.isArray(fields) ? [] : {}, fields);
    Reflect.set(copy, name, safe);
  }
  return copy ?? fields;
}

function redactValue(value: unknown, levels: number): unknown {
  const isOpaque = typeof value !== "object" || value === null || levels === 0;
  return isOpaque || value instanceof Error || ArrayBuffer.isView(value) ? value : redactFields(value, levels);
}
