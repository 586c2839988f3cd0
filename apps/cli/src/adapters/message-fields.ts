import type { EnumTable } from "@muster/proto";

/** Copies fields of a decoded message. A message inherits the fields that have their defaults, and a spread leaves those out. */
export function pick<Message, Name extends keyof Message>(message: Message, ...names: readonly Name[]) {
  const fields: Partial<Pick<Message, Name>> = {};
  for (const name of names) fields[name] = message[name];
  return fields as Pick<Message, Name>;
}

/** For fields in which the zero of protobuf means "not set". */
export function unlessDefault<Value extends string | number>(value: Value): Value | undefined {
  return value === 0 || value === "" ? undefined : value;
}

/** The name of the number in the words of the service; UNKNOWN: a service that is newer than this command knows more. */
export function nameOf(table: EnumTable<string>, number: number | undefined): string {
  return table.nameOf(number) ?? "UNKNOWN";
}
