import { createHash, randomBytes } from "node:crypto";
import { createServer } from "node:https";
import { join } from "node:path";
import { throwFault } from "@muster/faults";
import { loadKube } from "@muster/kube";
import { checkDnsLabel } from "@muster/names";
import { makeAuthority, signLoopbackServer } from "../apiserver/certificates.ts";
import { writeKubeconfig } from "../apiserver/write-kubeconfig.ts";
import { decideFault, type RuleState } from "./decide-fault.ts";
import { checkRule, type FaultControls, type FaultCounters, type FaultRuleRequest } from "./fault-controls.ts";
import { openFaultyListener } from "./faulty-listener.ts";
import { openWatches } from "./open-watches.ts";
import { buildRequestFacts, type RequestFacts } from "./request-facts.ts";
import { serveFaulty } from "./serve-faulty.ts";
import { connectUpstream } from "./upstream.ts";

export type FaultyApiOptions = {
  /** Path of a kubeconfig: the API server behind the proxy, and the clients' credentials there. */
  readonly kubeconfig: string;
  /** Directory for the kubeconfigs of the clients. */
  readonly directory: string;
  /** The source of the draws of shares; the same seed gives the same draws. */
  readonly seed: number;
  /** Default 0: any free port. */
  readonly port?: number;
  /** Receives the failure to reopen the port after an outage. */
  readonly onError?: (error: unknown) => void;
};

/** A proxy that injects faults on request. It passes all other requests on to the API server. */
export type FaultyApi = AsyncDisposable &
  FaultControls & {
    readonly url: string;
    /** Path of the kubeconfig for clients without a name. */
    readonly kubeconfig: string;
    /** PEM of the authority of its certificate. */
    readonly ca: string;
    /** Writes a kubeconfig that identifies its requests by a name (`who` of a match), and returns its path. */
    kubeconfigFor(who: string): Promise<string>;
  };

const MAX_RULES = 1000;

/** Puts a proxy before an API server that injects faults into the requests of its clients. Resolves once it passes requests on. */
export async function startFaultyApi(options: FaultyApiOptions): Promise<FaultyApi> {
  const { directory, seed } = options;
  await using started = new AsyncDisposableStack();
  const upstream = started.use(await connectUpstream(loadKube(options.kubeconfig)));
  const authority = await makeAuthority("muster-faulty-api");
  const state = faultState();
  const onUpstreamError = (): void => {
    state.counts.upstreamErrors += 1;
  };
  const clients = new Map<string, string>();
  const server = createServer(await signLoopbackServer(authority, "kube-apiserver"), (request, response) => {
    const who = clients.get(digest(/^Bearer +(.*)$/i.exec(request.headers.authorization ?? "")?.[1] ?? ""));
    const facts =
      who === undefined
        ? undefined
        : buildRequestFacts({ method: request.method ?? "GET", url: request.url ?? "/", who });
    const verdict = facts === undefined ? undefined : state.decide(facts, seed);
    serveFaulty({ upstream, watches: state.watches, onUpstreamError }, request, response, {
      facts,
      verdict,
    });
  });
  // A frozen or slow client belongs to the test, so only faults end connections.
  server.requestTimeout = 0;
  server.keepAliveTimeout = 0;
  const listener = started.use(
    await openFaultyListener(server, options.port ?? 0, options.onError ?? (() => undefined)),
  );
  const url = `https://127.0.0.1:${listener.port}`;
  const admit = async (who: string, file: string): Promise<string> => {
    const token = randomBytes(24).toString("hex");
    clients.set(digest(token), who);
    await writeKubeconfig(file, { url, ca: authority.cert, token });
    return file;
  };
  const kubeconfig = await admit("", join(directory, "kubeconfig-faulty"));
  const all = started.move();
  return {
    ...faultControls(state, listener),
    url,
    kubeconfig,
    ca: authority.cert,
    kubeconfigFor: (who) => {
      const problem = checkDnsLabel("who", who);
      if (problem !== undefined) return throwFault(problem);
      return admit(who, join(directory, `kubeconfig-${who}`));
    },
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

/** The rules, their effects, and the open watches. */
function faultState() {
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
  return {
    watches,
    /** The counters of the controls. */
    counts,
    decide: (facts: RequestFacts, seed: number): ReturnType<typeof decideFault>["verdict"] => {
      counts.requests += 1;
      const decided = decideFault(rules, facts, seed);
      rules = decided.rules;
      return decided.verdict;
    },
    inject: (added: readonly FaultRuleRequest[]): void => {
      rules = addRules(rules, added, () => `rule-${(named += 1)}`);
    },
    remove: (ids: readonly string[]): void => {
      rules = rules.filter(({ rule }) => ids.length > 0 && !ids.includes(rule.id));
    },
    counters: (): FaultCounters => ({
      ...counts,
      openWatches: watches.count(),
      rules: rules.map(({ rule, matched, injected }) => ({ id: rule.id, matched, injected })),
    }),
  };
}

type Listener = Pick<Awaited<ReturnType<typeof openFaultyListener>>, "goAway" | "comeBack">;

function faultControls(state: ReturnType<typeof faultState>, listener: Listener): FaultControls {
  const { watches, counts } = state;
  const after = async (act: () => void | Promise<void>): Promise<FaultCounters> => {
    await act();
    return state.counters();
  };
  return {
    inject: (...rules) => after(() => state.inject(rules)),
    remove: (...ids) => after(() => state.remove(ids)),
    dropWatches: (match = {}) =>
      after(() => {
        counts.watchesDropped += watches.each(match, "drop");
      }),
    silenceWatches: (match = {}) =>
      after(() => {
        counts.watchesSilenced += watches.each(match, "silence");
      }),
    expireWatches: (match = {}) =>
      after(() => {
        counts.watchesExpired += watches.each(match, "expire");
      }),
    goAway: (ms) =>
      after(() => {
        counts.timesAway += 1;
        return listener.goAway(ms);
      }),
    comeBack: () => after(() => listener.comeBack()),
    counters: () => after(() => undefined),
  };
}

/** Throws for an invalid rule, too many rules, or a duplicate id. */
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
  if (next.length > MAX_RULES)
    throwFault({ code: "limit_exceeded", what: "number of fault rules", limit: MAX_RULES, retryAfterMs: 0 });
  const ids = new Set(next.map(({ rule }) => rule.id));
  if (ids.size < next.length) throwFault({ code: "invalid_request", field: "id", reason: "a rule has it already" });
  return next;
}

/** Tokens are looked up by their digest, so that the look-up time reveals nothing. */
function digest(token: string): string {
  return createHash("sha256").update(token).digest("hex");
}
