import type { EnumTable } from "@muster/proto";

/** Copies fields of a decoded message. A message inherits fields that have their defaults, and a spread would omit those. */
export function pickFields<Message, Name extends keyof Message>(message: Message, ...names: readonly Name[]) {
  const fields: Partial<Pick<Message, Name>> = {};
  for (const name of names) fields[name] = message[name];
  return fields as Pick<Message, Name>;
}

/** Maps the zero of protobuf to undefined, in fields where it means "not set". */
export function unlessDefault<Value extends string | number>(value: Value): Value | undefined {
  return value === 0 || value === "" ? undefined : value;
}

/** Returns the service's name for the number; UNKNOWN if a newer service has more names. */
export function nameOf(table: EnumTable<string>, number: number | undefined): string {
  return table.nameOf(number) ?? "UNKNOWN";
}
