import type { RequestFacts, Verb } from "./request-facts.ts";

/** The matching requests. An absent field matches all of them. */
export type FaultMatch = {
  readonly verbs?: readonly Verb[];
  /** `pods`, `pods/status`. */
  readonly resources?: readonly string[];
  readonly namespaces?: readonly string[];
  readonly names?: readonly string[];
  /** Names of clients, each with its own kubeconfig. */
  readonly who?: readonly string[];
};

/** The fault of a request. */
export type RequestFault =
  /** The API server does not see the request; the client gets this answer. */
  | { readonly do: "answer"; readonly code: 409 | 429 | 500 | 503 | 504; readonly retryAfterSeconds?: number }
  /** Passed on later. Delays of several rules add up, and another rule may still do more. */
  | { readonly do: "delay"; readonly ms: number }
  /** The connection breaks before the API server sees the request. */
  | { readonly do: "drop" }
  /** The API server handles the request, and the connection breaks before the client gets the answer. */
  | { readonly do: "lose-answer" };

export type FaultRule = {
  /** Names the rule in counters, and seeds its draws. */
  readonly id: string;
  readonly match: FaultMatch;
  readonly fault: RequestFault;
  /** Number of matching requests without effect at the start. */
  readonly after?: number;
  /** Maximum number of effects. */
  readonly times?: number;
  /** Fraction of the matching requests, from 0 to 1; default: all. */
  readonly share?: number;
};

export type RuleState = { readonly rule: FaultRule; readonly matched: number; readonly injected: number };

export type FaultVerdict = {
  readonly delayMs: number;
  /** Undefined: the request is forwarded. */
  readonly fault: Exclude<RequestFault, { do: "delay" }> | undefined;
  /** The ids of the rules that acted. */
  readonly because: readonly string[];
};

/**
 * Decides the effect on one request, and the next state of the rules. Rules act in order; once a rule other than a delay has acted, later rules do not count
 * the request. The n-th request that matches a rule has the same draw for the same seed, whatever other rules exist.
 */
export function decideFault(
  rules: readonly RuleState[],
  request: RequestFacts,
  seed: number,
): { readonly rules: readonly RuleState[]; readonly verdict: FaultVerdict } {
  let delayMs = 0;
  let fault: FaultVerdict["fault"];
  const because: string[] = [];
  const after = rules.map((state) => {
    const { rule, matched, injected } = state;
    if (fault !== undefined || injected >= (rule.times ?? Number.POSITIVE_INFINITY)) return state;
    if (!matchesRequest(rule.match, request)) return state;
    const isSpared = matched < (rule.after ?? 0) || drawShare(seed, rule.id, matched) >= (rule.share ?? 1);
    if (isSpared) return { ...state, matched: matched + 1 };
    because.push(rule.id);
    if (rule.fault.do === "delay") delayMs += rule.fault.ms;
    else fault = rule.fault;
    return { rule, matched: matched + 1, injected: injected + 1 };
  });
  return { rules: after, verdict: { delayMs, fault, because } };
}

/** Returns whether the request matches. */
export function matchesRequest(match: FaultMatch, request: RequestFacts): boolean {
  const isIn = (list: readonly string[] | undefined, value: string): boolean => list?.includes(value) ?? true;
  return (
    isIn(match.verbs, request.verb) &&
    isIn(match.resources, request.resource) &&
    isIn(match.namespaces, request.namespace) &&
    isIn(match.names, request.name) &&
    isIn(match.who, request.who)
  );
}

/** Returns a pseudo-random number from 0 (inclusive) to 1 that depends only on its arguments. */
export function drawShare(seed: number, id: string, turn: number): number {
  let hash = 0x811c9dc5;
  for (const character of `${seed}/${id}/${turn}`) {
    hash = Math.imul(hash ^ (character.codePointAt(0) ?? 0), 0x01000193);
  }
  // Without this step, neighbouring turns would differ in only a few bits.
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return ((hash ^ (hash >>> 16)) >>> 0) / 2 ** 32;
}
