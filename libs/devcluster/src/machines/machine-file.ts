import { mkdirSync, readFileSync } from "node:fs";
import { rename, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { isObject, type Json, listAt, numberAt, objectAt, textAt, textsAt } from "../apiserver/json.ts";
import { parseJson } from "../apiserver/body.ts";
import type { LaunchFaults, Machine } from "./machine.ts";
import { readOrder } from "./read-machines.ts";

/** What a cloud knows of its machines. */
export type MachineRecords = {
  /** How many there have ever been. */
  readonly launched: number;
  readonly machines: readonly Machine[];
  /** Gone ones, the latest last, so that an order that is repeated late makes none anew. */
  readonly gone: readonly Machine[];
};

/** The records of an earlier life; empty when there was none. Throws for a file that is none of ours. */
export function loadMachines(file: string): MachineRecords {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT")
      return { launched: 0, machines: [], gone: [] };
    throw error;
  }
  const body = parseJson(text, file);
  if (numberAt(body, "version") !== VERSION) throw new Error(`${file} is not of version ${VERSION}`);
  return {
    launched: numberAt(body, "launched") ?? 0,
    machines: listAt(body, "machines").map(readMachine),
    gone: listAt(body, "gone").map(readMachine),
  };
}

/** Keeps records in a file. What is returned resolves once the file has what was there at the time of the call, or something later. */
export function machineSaver(file: string, records: () => MachineRecords): () => Promise<void> {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  let writing: Promise<void> = Promise.resolve();
  let next: Promise<void> | undefined;
  const write = async (): Promise<void> => {
    next = undefined;
    await writeFile(`${file}.new`, JSON.stringify({ version: VERSION, ...records() }), { mode: 0o600 });
    await rename(`${file}.new`, file);
  };
  return () => {
    // Whoever comes while one write is under way shares the one after it.
    next ??= writing = writing.catch(() => undefined).then(write);
    return next;
  };
}

const VERSION = 1;

function readMachine(body: Json): Machine {
  const number = (key: string): number => numberAt(body, key) ?? broken(key);
  const state = textAt(body, "state");
  if (state !== "pending" && state !== "running" && state !== "stopping") return broken("state");
  const loss = isObject(body) ? body["loss"] : undefined;
  const order = objectAt(body, "order");
  return {
    instanceId: textAt(body, "instanceId") || broken("instanceId"),
    order: readOrder(order),
    image: textAt(body, "image"),
    zone: textAt(body, "zone"),
    nodeIndex: number("nodeIndex"),
    state,
    createdAtMs: number("createdAtMs"),
    bootsAtMs: number("bootsAtMs"),
    faults: readLaunchFaults(objectAt(body, "faults")),
    nodes: textsAt(body, "nodes"),
    loss:
      loss === undefined
        ? undefined
        : { atMs: numberAt(loss, "atMs") ?? broken("loss"), toldAtMs: numberAt(loss, "toldAtMs") ?? broken("loss") },
    vanishesAtMs: numberAt(body, "vanishesAtMs"),
    goneAtMs: numberAt(body, "goneAtMs"),
  };
}

function readLaunchFaults(body: Json): LaunchFaults {
  const loss = isObject(body) ? body["spotLoss"] : undefined;
  return {
    bootFailure: isObject(body) && typeof body["bootFailure"] === "string" ? body["bootFailure"] : undefined,
    spotLoss:
      loss === undefined
        ? undefined
        : { afterMs: numberAt(loss, "afterMs") ?? 0, noticeMs: numberAt(loss, "noticeMs") ?? 0 },
    vanishAfterMs: numberAt(body, "vanishAfterMs"),
    ordersIgnored: numberAt(body, "ordersIgnored") ?? 0,
    isTwin: isObject(body) && body["isTwin"] === true,
  };
}

function broken(key: string): never {
  throw new Error(`the file of machines has none, or no good, ${key}`);
}
