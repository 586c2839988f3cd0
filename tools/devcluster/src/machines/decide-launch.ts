import { drawShare } from "../faults/decide-fault.ts";
import type { LaunchFaults, Range } from "./machine.ts";

export type MachineCall = "create" | "list" | "get" | "delete" | "images" | "types";

/** The matching calls. An absent field matches all of them; a field that a call does not have matches none. */
export type MachineMatch = {
  readonly calls?: readonly MachineCall[];
  readonly owners?: readonly string[];
  readonly nodeNames?: readonly string[];
  readonly instanceTypes?: readonly string[];
  readonly spot?: boolean;
  readonly zones?: readonly string[];
};

/** A fault of any call. */
export type AnswerFault =
  /** The cloud only answers with this. */
  | { readonly do: "answer"; readonly code: 400 | 429 | 500 | 503; readonly retryAfterSeconds?: number }
  /** Delays the answer; delays of several rules add up. */
  | { readonly do: "delay"; readonly ms: number }
  /** The connection breaks before the cloud handles the call. */
  | { readonly do: "drop" }
  /** The cloud handles the call, but the connection breaks before the answer. */
  | { readonly do: "lose-answer" };

/** The fault of a requested machine. */
export type LaunchFault =
  /** No capacity in the zones of the match, or in any zone. */
  | { readonly do: "no-capacity" }
  | { readonly do: "unsupported" }
  | ({ readonly do: "boot-delay" } & Range)
  /** The machine never becomes a node; the cloud reports the message unless it is empty. */
  | { readonly do: "boot-failure"; readonly message?: string }
  | { readonly do: "spot-loss"; readonly afterMs: number; readonly noticeMs: number }
  | { readonly do: "vanish"; readonly afterMs: number }
  | { readonly do: "zombie"; readonly orders: number }
  | { readonly do: "twin" };

export type MachineFault = AnswerFault | LaunchFault;

export type MachineRule = {
  /** Names the rule in counters, and seeds its draws. */
  readonly id: string;
  readonly match: MachineMatch;
  readonly fault: MachineFault;
  /** Maximum number of times that the rule applies. */
  readonly times?: number;
  /** The affected share of matching launches, from 0 to 1; default 1. */
  readonly share?: number;
};

export type MachineRuleState = { readonly rule: MachineRule; readonly matched: number; readonly injected: number };

export type CallFacts = {
  readonly call: MachineCall;
  readonly owner: string;
  readonly nodeName: string | undefined;
  readonly instanceType: string | undefined;
  readonly spot: boolean | undefined;
  readonly zone: string | undefined;
};

export type AnswerVerdict = {
  readonly delayMs: number;
  readonly fault: Exclude<AnswerFault, { do: "delay" }> | undefined;
};

type Decided<Verdict> = { readonly rules: readonly MachineRuleState[]; readonly verdict: Verdict };

/** Decides the fault of one call of any kind, and the rules after it. */
export function decideAnswer(
  rules: readonly MachineRuleState[],
  facts: CallFacts,
  seed: number,
): Decided<AnswerVerdict> {
  let delayMs = 0;
  let fault: AnswerVerdict["fault"];
  const after = rules.map((state) => {
    const own = state.rule.fault;
    if (!isAnswerFault(own) || fault !== undefined || !matches(state.rule.match, facts)) return state;
    const { next, acts } = draw(state, seed);
    if (!acts) return next;
    if (own.do === "delay") delayMs += own.ms;
    else fault = own;
    return next;
  });
  return { rules: after, verdict: { delayMs, fault } };
}

export type LaunchVerdict =
  | {
      readonly kind: "launch";
      readonly zone: string;
      /** Undefined selects the type's own. */
      readonly bootMs: Range | undefined;
      readonly faults: LaunchFaults;
    }
  | { readonly kind: "no-capacity"; readonly zone: string | undefined }
  | { readonly kind: "unsupported" };

/** Decides the outcome of an order for a machine, and the rules after it. `zones` are the acceptable ones, the best first. */
export function decideLaunch(
  rules: readonly MachineRuleState[],
  facts: CallFacts,
  zones: readonly string[],
  seed: number,
): Decided<LaunchVerdict> {
  const short = new Set<string>();
  const afterCapacity = rules.map((state) => {
    const { match, fault } = state.rule;
    if (fault.do !== "no-capacity") return state;
    const meant = zones.filter((zone) => match.zones?.includes(zone) ?? true);
    if (meant.length === 0 || !matches({ ...match, zones: undefined }, facts)) return state;
    const { next, acts } = draw(state, seed);
    if (acts) for (const zone of meant) short.add(zone);
    return next;
  });
  const zone = zones.find((each) => !short.has(each));
  if (zone === undefined) return { rules: afterCapacity, verdict: { kind: "no-capacity", zone: facts.zone } };

  const acting: LaunchFault[] = [];
  const after = afterCapacity.map((state) => {
    const { match, fault } = state.rule;
    if (isAnswerFault(fault) || fault.do === "no-capacity" || !matches(match, { ...facts, zone })) return state;
    const { next, acts } = draw(state, seed);
    if (acts) acting.push(fault);
    return next;
  });
  return { rules: after, verdict: buildVerdict(zone, acting) };
}

function buildVerdict(zone: string, acting: readonly LaunchFault[]): LaunchVerdict {
  if (acting.some((fault) => fault.do === "unsupported")) return { kind: "unsupported" };
  const last = <Do extends LaunchFault["do"]>(name: Do): Extract<LaunchFault, { do: Do }> | undefined =>
    acting.findLast((fault): fault is Extract<LaunchFault, { do: Do }> => fault.do === name);
  const failure = last("boot-failure");
  const loss = last("spot-loss");
  const delay = last("boot-delay");
  return {
    kind: "launch",
    zone,
    bootMs: delay === undefined ? undefined : { from: delay.from, to: delay.to },
    faults: {
      bootFailure: failure === undefined ? undefined : (failure.message ?? ""),
      spotLoss: loss === undefined ? undefined : { afterMs: loss.afterMs, noticeMs: loss.noticeMs },
      vanishAfterMs: last("vanish")?.afterMs,
      ordersIgnored: last("zombie")?.orders ?? 0,
      isTwin: last("twin") !== undefined,
    },
  };
}

/** Draws the same for the n-th match of a rule and a seed, independent of other rules. */
function draw(state: MachineRuleState, seed: number): { readonly next: MachineRuleState; readonly acts: boolean } {
  const { rule, matched, injected } = state;
  if (injected >= (rule.times ?? Number.POSITIVE_INFINITY)) return { next: state, acts: false };
  const acts = drawShare(seed, rule.id, matched) < (rule.share ?? 1);
  return { next: { rule, matched: matched + 1, injected: injected + (acts ? 1 : 0) }, acts };
}

type Unset<Value> = { readonly [Key in keyof Value]: Value[Key] | undefined };

function matches(match: Unset<MachineMatch>, facts: CallFacts): boolean {
  const isIn = (list: readonly string[] | undefined, value: string | undefined): boolean =>
    list === undefined || (value !== undefined && list.includes(value));
  return (
    isIn(match.calls, facts.call) &&
    isIn(match.owners, facts.owner) &&
    isIn(match.nodeNames, facts.nodeName) &&
    isIn(match.instanceTypes, facts.instanceType) &&
    isIn(match.zones, facts.zone) &&
    (match.spot === undefined || match.spot === facts.spot)
  );
}

function isAnswerFault(fault: MachineFault): fault is AnswerFault {
  return ["answer", "delay", "drop", "lose-answer"].includes(fault.do);
}
