import { mkdirSync, readFileSync } from "node:fs";
import { rename, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { z } from "zod";
import { parseJson } from "../apiserver/body.ts";
import { isObject } from "../apiserver/json.ts";
import { amount, count, readShape, text } from "../read-shape.ts";
import type { LaunchFaults, Machine } from "./machine.ts";
import { order } from "./read-machines.ts";

/** The cloud's records of its machines. */
export type MachineRecords = {
  /** Number of machines ever created. */
  readonly launched: number;
  readonly machines: readonly Machine[];
  /** Gone machines, the latest last, because a repeated order must not recreate one. */
  readonly gone: readonly Machine[];
};

/** Reads the records of earlier processes; empty without a file. Throws for a file in another format. */
export function loadMachines(file: string): MachineRecords {
  let json: string;
  try {
    json = readFileSync(file, "utf8");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT")
      return { launched: 0, machines: [], gone: [] };
    throw error;
  }
  const { launched, machines, gone } = readShape(records, parseJson(json, file), file);
  return { launched, machines, gone };
}

/** Stores records in a file. The returned function resolves once the file contains the records at the time of the call, or later ones. */
export function openMachineSaver(file: string, current: () => MachineRecords): () => Promise<void> {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  let writing: Promise<void> = Promise.resolve();
  let next: Promise<void> | undefined;
  const write = async (): Promise<void> => {
    next = undefined;
    await writeFile(`${file}.new`, JSON.stringify({ version: VERSION, ...current() }), { mode: 0o600 });
    await rename(`${file}.new`, file);
  };
  return () => {
    // Callers during a write share the next one.
    next ??= writing = writing.catch(() => undefined).then(write);
    return next;
  };
}

const VERSION = 1;

const launchFaults = z
  .object({
    bootFailure: z.string().optional(),
    spotLoss: z.object({ afterMs: amount, noticeMs: amount }).optional(),
    vanishAfterMs: amount.optional(),
    ordersIgnored: count,
    isTwin: z.boolean(),
  })
  .transform(({ bootFailure, spotLoss, vanishAfterMs, ...rest }): LaunchFaults => {
    return { ...rest, bootFailure, spotLoss, vanishAfterMs };
  });

/** Files of earlier versions contain `noticeAtMs` as `toldAtMs`. */
const loss = z.preprocess(
  (value) => (isObject(value) && "toldAtMs" in value ? { ...value, noticeAtMs: value["toldAtMs"] } : value),
  z.object({ atMs: z.number(), noticeAtMs: z.number() }),
);

const machine = z
  .object({
    instanceId: text,
    order,
    image: z.string(),
    zone: z.string(),
    nodeIndex: count,
    state: z.enum(["pending", "running", "stopping"]),
    createdAtMs: z.number(),
    bootsAtMs: z.number(),
    faults: launchFaults,
    nodes: z.array(z.string()),
    loss: loss.optional(),
    vanishesAtMs: z.number().optional(),
    goneAtMs: z.number().optional(),
  })
  .transform(({ loss, vanishesAtMs, goneAtMs, ...rest }): Machine => ({ ...rest, loss, vanishesAtMs, goneAtMs }));

const records = z.object({
  version: z.literal(VERSION),
  launched: count,
  machines: z.array(machine),
  gone: z.array(machine),
});
