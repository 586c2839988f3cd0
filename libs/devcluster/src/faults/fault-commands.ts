import { throwFault } from "@muster/faults";
import { isObject, type Json, type JsonObject, listAt, numberAt, textAt, textsAt } from "../apiserver/json.ts";
import type { FaultMatch, FaultRule, RequestFault } from "./decide-fault.ts";
import { VERBS } from "./request-facts.ts";

/** A rule; its id is given to it when it has none. */
export type FaultRuleRequest = Omit<FaultRule, "id"> & { readonly id?: string };

/** What can be asked of a faulty API, in the form in which other processes send it. */
export type FaultCommand =
  | { readonly do: "inject"; readonly rules: readonly FaultRuleRequest[] }
  /** Without ids: all rules. What they have counted is forgotten with them. */
  | { readonly do: "remove"; readonly ids?: readonly string[] }
  | { readonly do: "drop-watches" | "silence-watches" | "expire-watches"; readonly match?: FaultMatch }
  | { readonly do: "go-away"; readonly ms: number }
  | { readonly do: "come-back" }
  | { readonly do: "count" };

export type FaultCounters = {
  readonly requests: number;
  readonly openWatches: number;
  readonly rules: readonly { readonly id: string; readonly matched: number; readonly injected: number }[];
  readonly watchesDropped: number;
  readonly watchesSilenced: number;
  readonly watchesExpired: number;
  readonly timesAway: number;
  /** Requests that failed because the API server behind broke the connection or was not there. */
  readonly upstreamErrors: number;
};

export const RULES_MAX = 1000;

/** Reads a command that another process has sent. Throws invalid_request for what is none. */
export function parseFaultCommand(body: Json): FaultCommand {
  const name = textAt(body, "do");
  switch (name) {
    case "inject":
      return { do: name, rules: listAt(body, "rules").map(parseRule) };
    case "remove": {
      const ids = isObject(body) && Array.isArray(body["ids"]) ? { ids: textsAt(body, "ids") } : {};
      return { do: name, ...ids };
    }
    case "drop-watches":
    case "silence-watches":
    case "expire-watches":
      return { do: name, match: parseMatch(isObject(body) ? body["match"] : undefined) };
    case "go-away":
      return { do: name, ms: positive(body, "ms") };
    case "come-back":
    case "count":
      return { do: name };
    default:
      return wrong("do", `"${name}" is no command`);
  }
}

function parseRule(value: Json): FaultRuleRequest {
  if (!isObject(value)) return wrong("rules", "a rule is an object");
  const id = textAt(value, "id");
  const times = numberAt(value, "times");
  const share = numberAt(value, "share");
  const rule = {
    match: parseMatch(value["match"]),
    fault: parseFault(value["fault"]),
    ...(id === "" ? {} : { id }),
    ...(times === undefined ? {} : { times }),
    ...(share === undefined ? {} : { share }),
  };
  checkRule(rule);
  return rule;
}

/** Refuses numbers that mean nothing. */
export function checkRule({ times = 1, share = 1, fault }: FaultRuleRequest): void {
  if (!Number.isInteger(times) || times < 1) wrong("times", `${times} is no number of times`);
  if (!(share >= 0 && share <= 1)) wrong("share", `${share} is not between 0 and 1`);
  if (fault.do === "delay" && !(fault.ms >= 0)) wrong("ms", `${fault.ms} is no time`);
  if (fault.do === "cut-answer" && !(fault.afterBytes >= 0)) wrong("afterBytes", `${fault.afterBytes} is no size`);
}

function parseFault(value: Json | undefined): RequestFault {
  const name = textAt(value, "do");
  switch (name) {
    case "answer": {
      const code = numberAt(value, "code");
      const retryAfterSeconds = numberAt(value, "retryAfterSeconds");
      if (code !== 409 && code !== 429 && code !== 500 && code !== 503 && code !== 504) {
        return wrong("code", `${code ?? "nothing"} is not one of 409, 429, 500, 503, 504`);
      }
      return { do: name, code, ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }) };
    }
    case "delay":
      return { do: name, ms: positive(value, "ms") };
    case "cut-answer":
      return { do: name, afterBytes: positive(value, "afterBytes") };
    case "expire":
    case "drop":
    case "lose-answer":
    case "silence":
      return { do: name };
    default:
      return wrong("fault", `"${name}" is no fault`);
  }
}

function parseMatch(value: Json | undefined): FaultMatch {
  if (value === undefined) return {};
  if (!isObject(value)) return wrong("match", "an object is needed");
  const texts = (key: string): string[] | undefined => (Object.hasOwn(value, key) ? textsAt(value, key) : undefined);
  const given = {
    verbs: texts("verbs")?.map((verb) => VERBS.find((known) => known === verb) ?? wrong("verbs", `"${verb}" is none`)),
    resources: texts("resources"),
    namespaces: texts("namespaces"),
    names: texts("names"),
    who: texts("who"),
    userAgent: Object.hasOwn(value, "userAgent") ? textAt(value, "userAgent") : undefined,
  };
  const unknown = Object.keys(value).filter((key) => !Object.hasOwn(given, key));
  if (unknown.length > 0) wrong("match", `unknown: ${unknown.join(", ")}`);
  return withoutUndefined(given);
}

type Given<Value> = { readonly [Key in keyof Value]: Value[Key] | undefined };

function withoutUndefined({ verbs, resources, namespaces, names, who, userAgent }: Given<FaultMatch>): FaultMatch {
  return {
    ...(verbs === undefined ? {} : { verbs }),
    ...(resources === undefined ? {} : { resources }),
    ...(namespaces === undefined ? {} : { namespaces }),
    ...(names === undefined ? {} : { names }),
    ...(who === undefined ? {} : { who }),
    ...(userAgent === undefined ? {} : { userAgent }),
  };
}

/** What a faulty API answers to a command, read by the process that has sent it. */
export function parseFaultCounters(body: JsonObject): FaultCounters {
  const number = (key: string): number => numberAt(body, key) ?? 0;
  return {
    requests: number("requests"),
    openWatches: number("openWatches"),
    rules: listAt(body, "rules").map((rule) => ({
      id: textAt(rule, "id"),
      matched: numberAt(rule, "matched") ?? 0,
      injected: numberAt(rule, "injected") ?? 0,
    })),
    watchesDropped: number("watchesDropped"),
    watchesSilenced: number("watchesSilenced"),
    watchesExpired: number("watchesExpired"),
    timesAway: number("timesAway"),
    upstreamErrors: number("upstreamErrors"),
  };
}

function positive(value: Json | undefined, key: string): number {
  const found = numberAt(value, key) ?? Number.NaN;
  return found >= 0 ? found : wrong(key, "a number from 0 on is needed");
}

function wrong(field: string, reason: string): never {
  return throwFault({ code: "invalid_request", field, reason });
}
