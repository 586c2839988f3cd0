import { createHash, randomBytes } from "node:crypto";
import { createServer } from "node:https";
import { join } from "node:path";
import { throwFault } from "@muster/faults";
import { loadKube } from "@muster/kube";
import { checkDnsLabel } from "@muster/names";
import { makeAuthority, signLoopbackServer } from "../apiserver/certificates.ts";
import { writeKubeconfig } from "../apiserver/write-kubeconfig.ts";
import type { ControlAddress } from "../send-command.ts";
import { decideFault, type RuleState } from "./decide-fault.ts";
import {
  checkRule,
  type FaultCommand,
  type FaultCounters,
  type FaultRuleRequest,
  RULES_MAX,
} from "./fault-commands.ts";
import { type FaultControls, faultControls, serveFaultControls } from "./fault-controls.ts";
import { faultyListener } from "./faulty-listener.ts";
import { openWatches } from "./open-watches.ts";
import { buildRequestFacts } from "./request-facts.ts";
import { serveFaulty } from "./serve-faulty.ts";
import { connectUpstream } from "./upstream.ts";

export type FaultyApiOptions = {
  /** File: the API server that is passed on to, and who the clients are there. */
  readonly kubeconfig: string;
  /** Gets the kubeconfigs for the clients. */
  readonly directory: string;
  /** What the draws of shares come from; the same seed gives the same draws. */
  readonly seed: number;
  /** Default 0: any free port. */
  readonly port?: number;
  /** Gets the failure to reopen the port after an absence. */
  readonly onError?: (error: unknown) => void;
};

/** A proxy that injects faults on request. It passes all other requests on to the API server. */
export type FaultyApi = AsyncDisposable &
  FaultControls & {
    readonly url: string;
    /** The file, for clients without a name of their own. */
    readonly kubeconfig: string;
    /** PEM of the authority of its certificate. */
    readonly ca: string;
    /** Writes a kubeconfig whose requests are known by a name (`who` of a match), and returns the file. */
    kubeconfigFor(who: string): Promise<string>;
    /** For commands of other processes, see `remoteFaultControls`. */
    readonly control: ControlAddress;
  };

/** Puts a proxy before an API server that injects faults into what its clients do. Resolves once it passes requests on. */
export async function startFaultyApi(options: FaultyApiOptions): Promise<FaultyApi> {
  const { directory, seed } = options;
  await using started = new AsyncDisposableStack();
  const upstream = started.use(await connectUpstream(loadKube(options.kubeconfig)));
  const authority = await makeAuthority("muster-faulty-api");
  const state = faultState();
  const clients = new Map<string, string>();
  const server = createServer(await signLoopbackServer(authority, "kube-apiserver"), (request, response) => {
    const who = clients.get(digest(/^Bearer +(.*)$/i.exec(request.headers.authorization ?? "")?.[1] ?? ""));
    const facts =
      who === undefined
        ? undefined
        : buildRequestFacts({ method: request.method ?? "GET", url: request.url ?? "/", who });
    const verdict = facts === undefined ? undefined : state.decide(facts, seed);
    serveFaulty({ upstream, watches: state.watches, onUpstreamError: state.upstreamFailed }, request, response, {
      facts,
      verdict,
    });
  });
  // A frozen or slow client is the tester's business; nothing is cut off but on demand.
  server.requestTimeout = 0;
  server.keepAliveTimeout = 0;
  const listener = started.use(await faultyListener(server, options.port ?? 0, options.onError ?? (() => undefined)));
  const url = `https://127.0.0.1:${listener.port}`;
  const admit = async (who: string, file: string): Promise<string> => {
    const token = randomBytes(24).toString("hex");
    clients.set(digest(token), who);
    await writeKubeconfig(file, { url, ca: authority.cert, token });
    return file;
  };
  const perform = async (command: FaultCommand): Promise<FaultCounters> => {
    if (command.do === "go-away") {
      state.wentAway();
      await listener.goAway(command.ms);
    } else if (command.do === "come-back") await listener.comeBack();
    else state.perform(command);
    return state.counters();
  };
  const control = started.use(await serveFaultControls(randomBytes(24).toString("hex"), perform));
  const kubeconfig = await admit("", join(directory, "kubeconfig-faulty"));
  const all = started.move();
  return {
    ...faultControls(perform),
    url,
    kubeconfig,
    ca: authority.cert,
    kubeconfigFor: (who) => {
      const problem = checkDnsLabel("who", who);
      if (problem !== undefined) return throwFault(problem);
      return admit(who, join(directory, `kubeconfig-${who}`));
    },
    control: { url: control.url, token: control.token },
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

type LocalCommand = Exclude<FaultCommand, { do: "go-away" | "come-back" }>;

/** The rules, what they have done, and the watches that are open. */
function faultState(): {
  readonly watches: ReturnType<typeof openWatches>;
  decide(facts: Parameters<typeof decideFault>[1], seed: number): ReturnType<typeof decideFault>["verdict"];
  perform(command: LocalCommand): void;
  counters(): FaultCounters;
  wentAway(): void;
  upstreamFailed(): void;
} {
  const watches = openWatches();
  let rules: readonly RuleState[] = [];
  let named = 0;
  const counts = {
    requests: 0,
    watchesDropped: 0,
    watchesSilenced: 0,
    watchesExpired: 0,
    timesAway: 0,
    upstreamErrors: 0,
  };
  const perform = (command: LocalCommand): void => {
    switch (command.do) {
      case "inject":
        rules = addRules(rules, command.rules, () => `rule-${(named += 1)}`);
        return;
      case "remove":
        rules = rules.filter(({ rule }) => command.ids !== undefined && !command.ids.includes(rule.id));
        return;
      case "drop-watches":
        counts.watchesDropped += watches.each(command.match ?? {}, "drop");
        return;
      case "silence-watches":
        counts.watchesSilenced += watches.each(command.match ?? {}, "silence");
        return;
      case "expire-watches":
        counts.watchesExpired += watches.each(command.match ?? {}, "expire");
        return;
      case "count":
        return;
    }
  };
  return {
    watches,
    decide: (facts, seed) => {
      counts.requests += 1;
      const decided = decideFault(rules, facts, seed);
      rules = decided.rules;
      return decided.verdict;
    },
    perform,
    counters: () => ({
      ...counts,
      openWatches: watches.count(),
      rules: rules.map(({ rule, matched, injected }) => ({ id: rule.id, matched, injected })),
    }),
    wentAway: () => {
      counts.timesAway += 1;
    },
    upstreamFailed: () => {
      counts.upstreamErrors += 1;
    },
  };
}

/** Throws for an invalid rule, for too many rules, and for an id that a rule has. */
function addRules(
  rules: readonly RuleState[],
  added: readonly FaultRuleRequest[],
  nameNext: () => string,
): RuleState[] {
  added.forEach(checkRule);
  const next = [
    ...rules,
    ...added.map((rule) => {
      const name = nameNext();
      return { rule: { ...rule, id: rule.id ?? name }, matched: 0, injected: 0 };
    }),
  ];
  if (next.length > RULES_MAX)
    throwFault({ code: "limit_exceeded", what: "number of fault rules", limit: RULES_MAX, retryAfterMs: 0 });
  const ids = new Set(next.map(({ rule }) => rule.id));
  if (ids.size < next.length) throwFault({ code: "invalid_request", field: "id", reason: "a rule has it already" });
  return next;
}

/** Tokens are looked up by their digest, so that the time of a look-up says nothing of them. */
function digest(token: string): string {
  return createHash("sha256").update(token).digest("hex");
}
