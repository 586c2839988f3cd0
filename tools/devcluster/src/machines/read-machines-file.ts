import { readFileSync } from "node:fs";
import { throwFault } from "@muster/faults";
import { z } from "zod";
import { parseYaml } from "../apiserver/body.ts";
import type { JsonValue } from "../apiserver/json.ts";
import { FailureError } from "../apiserver/status.ts";
import { amount, count, quantity, readShape, text } from "../read-shape.ts";
import { machineRule, range } from "./read-machines.ts";
import type { MachinesOptions } from "./start-machines.ts";

type FileOptions = Omit<MachinesOptions, "directory" | "nodes" | "now" | "onError">;

/** Reads the options of a cloud from a file in YAML or JSON, with the names of `MachinesOptions`. Throws invalid_request that names the file or the field. */
export function readMachinesFile(file: string): FileOptions {
  let content: string;
  try {
    content = readFileSync(file, "utf8");
  } catch (error) {
    return wrong(`${file}: ${error instanceof Error ? error.message : String(error)}`);
  }
  return readShape(machines, parse(content, file), "machines");
}

function parse(content: string, file: string): JsonValue {
  try {
    return parseYaml(content, file);
  } catch (error) {
    if (error instanceof FailureError) return wrong(error.message);
    throw error;
  }
}

function wrong(reason: string): never {
  return throwFault({ code: "invalid_request", field: "machines", reason });
}

/** A number is a range of this one value. */
const bootMs = z.preprocess((value) => (typeof value === "number" ? { from: value, to: value } : value), range);

const type = z.strictObject({
  name: quantity,
  cpu: quantity,
  memory: quantity,
  gpus: count.exactOptional(),
  pods: count.exactOptional(),
  spot: z.boolean().exactOptional(),
  bootMs: bootMs.exactOptional(),
});

const image = z.strictObject({
  id: text,
  createdAtMs: z.number().exactOptional(),
  properties: z.record(z.string(), z.string()).default({}),
});

const machines = z.strictObject({
  types: z.array(type).default([]),
  zones: z.array(text).exactOptional(),
  images: z.array(image).exactOptional(),
  machinesMax: count.exactOptional(),
  bootMs: bootMs.exactOptional(),
  endMs: amount.exactOptional(),
  seed: z.number().exactOptional(),
  faults: z.array(machineRule).exactOptional(),
  port: count.exactOptional(),
});
