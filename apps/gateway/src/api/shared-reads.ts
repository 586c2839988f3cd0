import { hash } from "node:crypto";
import { throwFault } from "@muster/faults";
import { OWN_FIELDS, getShape, getTypeName, type Route } from "@muster/gateway-api";
import { answerOf } from "./answer-request.ts";
import { readRequest, type Asked } from "./read-request.ts";

/** Makes one call of a service, whose reply stays encoded. Rejects only with FaultError. */
export type CallBytes = (route: Route, request: Readonly<Record<string, unknown>>) => Promise<Uint8Array>;

/** An answer as it is sent, with its version. */
export type ReadAnswer = { readonly json: string; readonly tag: string };

/** Answers of reads that do not depend on the user. */
export type SharedReads = {
  /**
   * Calls the service once for all requests of one `url` that arrive before the call begins. A read observes every write that was answered before the read
   * arrived. Rejects only with FaultError.
   */
  read(url: string, route: Route, asked: Asked): Promise<ReadAnswer>;
  /** Number of characters and bytes in the kept answers. */
  readonly kept: number;
};

type Kept = {
  readonly request: Readonly<Record<string, unknown>>;
  readonly reply: Uint8Array;
  readonly answer: ReadAnswer;
};

export type ReadLimits = { readonly maxAnswers: number; readonly maxKept: number };

/** Returns whether the answer is one reply of the service, and equal for all users with the right. */
export function isShared(route: Route, { waitMs = "0" }: Asked["query"]): boolean {
  const { kind } = route.answer;
  const isOneReply = kind === "list" || kind === "item" || kind === "reply";
  return route.http === "GET" && isOneReply && waitMs === "0" && !hasCallerFields(route);
}

/** Keeps the last answers, so that an unchanged reply is not converted again. Drops the oldest answers above either limit. */
export function openSharedReads(call: CallBytes, { maxAnswers, maxKept }: ReadLimits): SharedReads {
  // The answers, sorted by their last use.
  const answers = new Map<string, Kept>();
  const beginning = new Map<string, Promise<ReadAnswer>>();
  let size = 0;
  const forget = (url: string): void => {
    const kept = answers.get(url);
    if (kept === undefined) return;
    size -= sizeOf(url, kept);
    answers.delete(url);
  };
  const keep = (url: string, kept: Kept): void => {
    forget(url);
    answers.set(url, kept);
    size += sizeOf(url, kept);
    for (const oldest of answers.keys()) {
      if (size <= maxKept && answers.size <= maxAnswers) break;
      forget(oldest);
    }
  };
  const ask = async (url: string, route: Route, request: Kept["request"]): Promise<ReadAnswer> => {
    await nextTurn();
    beginning.delete(url);
    const reply = await call(route, request);
    const known = answers.get(url);
    const isSame = known !== undefined && Buffer.compare(known.reply, reply) === 0;
    // The reply is copied, because it is a part of a larger buffer of the connection.
    const kept = isSame ? known : { request, reply: Uint8Array.from(reply), answer: convert(route, request, reply) };
    keep(url, kept);
    return kept.answer;
  };
  return {
    get kept() {
      return size;
    },
    read: (url, route, asked) => {
      const known = beginning.get(url);
      if (known !== undefined) return known;
      const request = answers.get(url)?.request ?? readRequest(route, asked);
      const answer = ask(url, route, request);
      beginning.set(url, answer);
      return answer;
    },
  };
}

/** Resolves in the next turn of the event loop, once all requests of this turn have arrived. */
function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

function convert(route: Route, request: Kept["request"], reply: Uint8Array): ReadAnswer {
  const json = JSON.stringify(answerOf(route, decode(route, reply), request));
  return { json, tag: tagOf(json) };
}

/** Returns the version of an answer, as an ETag. */
export function tagOf(json: string): string {
  return `"${hash("sha256", json, "base64url").slice(0, 27)}"`;
}

function decode({ method }: Route, reply: Uint8Array): object {
  try {
    return method.reply.decode(reply) as object;
  } catch {
    return throwFault({ code: "internal", operation: method.name });
  }
}

function sizeOf(url: string, { reply, answer }: Kept): number {
  return url.length + reply.length + answer.json.length;
}

const callers = new Map<Route, boolean>();

/** Returns whether the request has fields for its user or its id. */
function hasCallerFields(route: Route): boolean {
  const known =
    callers.get(route) ?? OWN_FIELDS.some((name) => name in getShape(getTypeName(route.method.request)).fields);
  callers.set(route, known);
  return known;
}
