import { readFileSync } from "node:fs";
import { throwFault } from "@muster/faults";
import { type Json, type JsonObject, listAt, numberAt, objectAt, textAt, textsAt } from "../apiserver/json.ts";
import { parseYaml } from "../apiserver/body.ts";
import { FailureError } from "../apiserver/status.ts";
import type { MachineType, Range } from "./machine.ts";
import { readMachineRule, strict } from "./read-machines.ts";
import type { MachinesOptions } from "./start-machines.ts";

/** Options of a cloud as a file in YAML or JSON says them, with the names of `MachinesOptions`. Throws invalid_request that names the file. */
export function readMachinesFile(file: string): Omit<MachinesOptions, "directory" | "nodes" | "now" | "onError"> {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    return wrong("machines", `${file}: ${error instanceof Error ? error.message : String(error)}`);
  }
  return readMachinesOptions(parse(text, file));
}

function parse(text: string, file: string): Json {
  try {
    return parseYaml(text, file);
  } catch (error) {
    if (error instanceof FailureError) return wrong("machines", error.message);
    throw error;
  }
}

const KEYS = [
  "types",
  "zones",
  "images",
  "machinesMax",
  "bootMs",
  "endMs",
  "seed",
  "faults",
  "port",
] as const satisfies readonly (keyof MachinesOptions)[];

export function readMachinesOptions(body: Json): Omit<MachinesOptions, "directory" | "nodes" | "now" | "onError"> {
  const object = strict(body, "machines", KEYS);
  const numbers = Object.fromEntries(
    (["machinesMax", "endMs", "seed", "port"] as const).flatMap((key) =>
      object[key] === undefined ? [] : [[key, numberAt(object, key) ?? wrong(key, "a number is needed")]],
    ),
  );
  return {
    ...numbers,
    types: listAt(object, "types").map(readType),
    ...(object["zones"] === undefined ? {} : { zones: textsAt(object, "zones") }),
    ...(object["images"] === undefined ? {} : { images: listAt(object, "images").map(readImage) }),
    ...(object["bootMs"] === undefined ? {} : { bootMs: readRange(object) }),
    ...(object["faults"] === undefined ? {} : { faults: listAt(object, "faults").map(readMachineRule) }),
  };
}

function readType(body: Json): MachineType {
  const object = strict(body, "types", ["name", "cpu", "memory", "gpus", "pods", "spot", "bootMs"]);
  const count = (key: "gpus" | "pods"): { readonly [Key in typeof key]?: number } => {
    const value = object[key];
    if (value === undefined) return {};
    return typeof value === "number" ? { [key]: value } : wrong(key, "a number is needed");
  };
  const quantity = (key: string): string => {
    const value = object[key];
    if (typeof value === "number") return String(value);
    return textAt(object, key) || wrong(key, "is missing");
  };
  return {
    name: quantity("name"),
    cpu: quantity("cpu"),
    memory: quantity("memory"),
    ...count("gpus"),
    ...count("pods"),
    ...(typeof object["spot"] === "boolean" ? { spot: object["spot"] } : {}),
    ...(object["bootMs"] === undefined ? {} : { bootMs: readRange(object) }),
  };
}

function readImage(body: Json): NonNullable<MachinesOptions["images"]>[number] {
  const object = strict(body, "images", ["id", "createdAtMs", "properties"]);
  const createdAtMs = numberAt(object, "createdAtMs");
  const properties = objectAt(object, "properties");
  return {
    id: textAt(object, "id") || wrong("images", "one has no id"),
    ...(createdAtMs === undefined ? {} : { createdAtMs }),
    properties: Object.fromEntries(Object.keys(properties).map((key) => [key, textAt(properties, key)])),
  };
}

/** A number for all, or the least and the most. */
function readRange(object: JsonObject): Range {
  const fixed = numberAt(object, "bootMs");
  if (fixed !== undefined && fixed >= 0) return { from: fixed, to: fixed };
  const range = strict(object["bootMs"], "bootMs", ["from", "to"]);
  const [from, to] = [numberAt(range, "from") ?? -1, numberAt(range, "to") ?? -1];
  return from >= 0 && from <= to ? { from, to } : wrong("bootMs", "milliseconds, or {from, to}, are needed");
}

function wrong(field: string, reason: string): never {
  return throwFault({ code: "invalid_request", field, reason });
}
