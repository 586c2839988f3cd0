import { throwFault } from "@muster/faults";
import { checkDnsLabel } from "@muster/names";
import { at, isObject, type Json, type JsonObject, listAt, numberAt, textAt, textsAt } from "../apiserver/json.ts";
import type { NodeTaint } from "../kubelet/build-node.ts";
import type { MachineCall, MachineFault, MachineMatch, MachineRule } from "./decide-launch.ts";
import type { MachineOrder } from "./machine.ts";

/** What is asked of the cloud's faults. Machines are named by the node that they were asked for as. */
export type MachineCommand =
  | { readonly do: "inject"; readonly rules: readonly MachineRule[] }
  /** Without ids: all rules, with what they have counted. */
  | { readonly do: "remove"; readonly ids?: readonly string[] }
  /** It is told now that a machine goes away after so long. */
  | { readonly do: "lose-spot"; readonly nodeName: string; readonly noticeMs: number }
  | { readonly do: "vanish"; readonly nodeName: string }
  | { readonly do: "count" };

export type MachineCounters = {
  readonly calls: number;
  readonly launched: number;
  readonly gone: number;
  readonly rules: readonly { readonly id: string; readonly matched: number; readonly injected: number }[];
};

export const RULES_MAX = 1000;
const CALLS = ["create", "list", "get", "delete", "images", "types"] as const satisfies readonly MachineCall[];

const EFFECTS = ["NoSchedule", "NoExecute", "PreferNoSchedule"] as const satisfies readonly NodeTaint["effect"][];

/** Reads an order for a machine. Throws invalid_request for what is none. */
export function readOrder(body: Json): MachineOrder {
  const object = strict(body, "order", [
    "nodeName",
    "owner",
    "instanceType",
    "image",
    "spot",
    "zone",
    "gpus",
    "volumeGib",
    "privateIpOnly",
    "labels",
    "taints",
  ]);
  const nodeName = textAt(object, "nodeName");
  const owner = textAt(object, "owner");
  for (const [field, value] of [
    ["nodeName", nodeName],
    ["owner", owner],
  ] as const) {
    const problem = checkDnsLabel(field, value);
    if (problem !== undefined) throwFault(problem);
  }
  const labels = object["labels"] ?? {};
  if (!isObject(labels)) return wrong("labels", "an object is needed");
  return {
    nodeName,
    owner,
    instanceType: textAt(object, "instanceType") || wrong("instanceType", "is missing"),
    image: textAt(object, "image"),
    spot: object["spot"] === true,
    zone: textAt(object, "zone") || undefined,
    gpus: wholeNumber(object, "gpus") ?? 0,
    volumeGib: wholeNumber(object, "volumeGib"),
    privateIpOnly: object["privateIpOnly"] === true,
    labels: Object.fromEntries(
      Object.entries(labels).map(([key, value]) =>
        typeof value === "string" ? [key, value] : wrong(`labels.${key}`, "a text is needed"),
      ),
    ),
    taints: listAt(object, "taints").map(readTaint),
  };
}

function readTaint(body: Json): NodeTaint {
  const object = strict(body, "taint", ["key", "effect"]);
  const effect =
    EFFECTS.find((known) => known === object["effect"]) ?? wrong("effect", `is none of ${EFFECTS.join(", ")}`);
  return { key: textAt(object, "key") || wrong("key", "is missing"), effect };
}

/** Reads a command that another process has sent. Throws invalid_request for what is none. */
export function readMachineCommand(body: Json): MachineCommand {
  const name = textAt(body, "do");
  switch (name) {
    case "inject":
      return { do: name, rules: listAt(strict(body, "command", ["do", "rules"]), "rules").map(readMachineRule) };
    case "remove": {
      const given =
        at(strict(body, "command", ["do", "ids"]), "ids") === undefined ? {} : { ids: textsAt(body, "ids") };
      return { do: name, ...given };
    }
    case "lose-spot": {
      const noticeMs = positive(strict(body, "command", ["do", "nodeName", "noticeMs"]), "noticeMs");
      return { do: name, nodeName: textAt(body, "nodeName"), noticeMs };
    }
    case "vanish":
      return { do: name, nodeName: textAt(strict(body, "command", ["do", "nodeName"]), "nodeName") };
    case "count":
      return { do: name };
    default:
      return wrong("do", `"${name}" is no command`);
  }
}

/** Reads one rule; refuses numbers that mean nothing. */
export function readMachineRule(body: Json): MachineRule {
  const object = strict(body, "rule", ["id", "match", "fault", "times", "share"]);
  const times = numberAt(object, "times");
  const share = numberAt(object, "share");
  if (times !== undefined && (!Number.isInteger(times) || times < 1)) wrong("times", `${times} is no number of times`);
  if (share !== undefined && !(share >= 0 && share <= 1)) wrong("share", `${share} is not between 0 and 1`);
  return {
    id: textAt(object, "id") || wrong("id", "is missing"),
    match: readMatch(object["match"] ?? {}),
    fault: readFault(object["fault"] ?? {}),
    ...(times === undefined ? {} : { times }),
    ...(share === undefined ? {} : { share }),
  };
}

function readMatch(body: Json): MachineMatch {
  const object = strict(body, "match", ["calls", "owners", "nodeNames", "instanceTypes", "spot", "zones"]);
  const has = (key: string): boolean => Object.hasOwn(object, key);
  const calls = textsAt(object, "calls").map(
    (call) => CALLS.find((known) => known === call) ?? wrong("calls", `"${call}" is none of ${CALLS.join(", ")}`),
  );
  return {
    ...(has("calls") ? { calls } : {}),
    ...(has("owners") ? { owners: textsAt(object, "owners") } : {}),
    ...(has("nodeNames") ? { nodeNames: textsAt(object, "nodeNames") } : {}),
    ...(has("instanceTypes") ? { instanceTypes: textsAt(object, "instanceTypes") } : {}),
    ...(has("zones") ? { zones: textsAt(object, "zones") } : {}),
    ...(has("spot") ? { spot: object["spot"] === true } : {}),
  };
}

function readFault(body: Json): MachineFault {
  const name = textAt(body, "do");
  const only = (...keys: readonly string[]): JsonObject => strict(body, `fault ${name}`, ["do", ...keys]);
  switch (name) {
    case "answer": {
      const object = only("code", "retryAfterSeconds");
      const code = numberAt(object, "code");
      const after = numberAt(object, "retryAfterSeconds");
      if (code !== 400 && code !== 429 && code !== 500 && code !== 503) {
        return wrong("code", `${code ?? "nothing"} is not one of 400, 429, 500, 503`);
      }
      return { do: name, code, ...(after === undefined ? {} : { retryAfterSeconds: after }) };
    }
    case "delay":
      return { do: name, ms: positive(only("ms"), "ms") };
    case "boot-delay": {
      const object = only("from", "to");
      const [from, to] = [positive(object, "from"), positive(object, "to")];
      return from <= to ? { do: name, from, to } : wrong("from", `${from} is more than ${to}`);
    }
    case "boot-failure": {
      const message = textAt(only("message"), "message");
      return { do: name, ...(message === "" ? {} : { message }) };
    }
    case "spot-loss": {
      const object = only("afterMs", "noticeMs");
      return { do: name, afterMs: positive(object, "afterMs"), noticeMs: positive(object, "noticeMs") };
    }
    case "vanish":
      return { do: name, afterMs: positive(only("afterMs"), "afterMs") };
    case "zombie":
      return { do: name, orders: positive(only("orders"), "orders") };
    case "drop":
    case "lose-answer":
    case "no-capacity":
    case "unsupported":
    case "twin":
      only();
      return { do: name };
    default:
      return wrong("fault", `"${name}" is no fault`);
  }
}

/** The object, when it has no other keys than these. */
export function strict(body: Json | undefined, what: string, keys: readonly string[]): JsonObject {
  if (!isObject(body)) return wrong(what, "an object is needed");
  const unknown = Object.keys(body).filter((key) => !keys.includes(key));
  return unknown.length === 0 ? body : wrong(what, `unknown: ${unknown.join(", ")}; known: ${keys.join(", ")}`);
}

function wholeNumber(body: JsonObject, key: string): number | undefined {
  if (body[key] === undefined) return undefined;
  const found = numberAt(body, key) ?? Number.NaN;
  return Number.isSafeInteger(found) && found >= 0 ? found : wrong(key, "a whole number from 0 on is needed");
}

function positive(body: Json, key: string): number {
  const found = numberAt(body, key) ?? Number.NaN;
  return found >= 0 ? found : wrong(key, "a number from 0 on is needed");
}

function wrong(field: string, reason: string): never {
  return throwFault({ code: "invalid_request", field, reason });
}
