import type { Clock } from "../src/clock.ts";
import { KubeError } from "../src/kube-error.ts";
import { leaderElection, type Lead, type LeaderElectionOptions } from "../src/leader-election.ts";
import type { LeaseObject } from "../src/lease-record.ts";
import { virtualClock } from "./virtual-clock.ts";

/** What a candidate's way to the server does to its requests. */
export type Link = "well" | "away" | "silent" | "answers lost";

export type Candidate = {
  readonly id: number;
  readonly stop: AbortController;
  readonly terms: readonly Lead[];
  link: Link;
  freeze(): void;
  thaw(): void;
  /** Frozen for ever. */
  kill(): void;
  readonly killed: boolean;
  /** Awake, and believing that it leads. */
  leads(): boolean;
  readonly ended: Promise<void>;
};

/**
 * A Lease on a server and candidates for it, each with a clock of its own that is off by hours and that stands still for its alarms (not for its time) while it is frozen. Requests
 * and answers take some time each.
 */
export function leaseWorld(latencyMs: () => number) {
  const clock = virtualClock();
  let lease: LeaseObject | undefined;
  let version = 0;

  const conflict = () => new KubeError("PUT lease", 409, { reason: "Conflict" });
  function store(object: LeaseObject): LeaseObject {
    version += 1;
    lease = { ...object, metadata: { ...object.metadata, uid: "lease", resourceVersion: String(version) } };
    return structuredClone(lease);
  }
  const server = {
    get: () => {
      if (lease === undefined) throw new KubeError("GET lease", 404, { reason: "NotFound" });
      return structuredClone(lease);
    },
    create: (object: LeaseObject) => {
      if (lease !== undefined) throw new KubeError("POST lease", 409, { reason: "AlreadyExists" });
      return store(object);
    },
    replace: (object: LeaseObject) => {
      if (object.metadata?.resourceVersion !== lease?.metadata?.resourceVersion) throw conflict();
      return store(object);
    },
  };

  function candidate(id: number, more: Partial<LeaderElectionOptions> = {}): Candidate {
    const terms: Lead[] = [];
    const stop = new AbortController();
    let link: Link = "well";
    let frozen = false;
    let killed = false;
    let held: (() => void)[] = [];
    const whenAwake = (work: () => void): void => {
      if (frozen) held.push(work);
      else work();
    };
    const own: Clock = {
      now: () => clock.now() + id * 3_600_000,
      alarm: (afterMs, ring) => {
        let forgotten = false;
        const forget = clock.alarm(afterMs, () =>
          whenAwake(() => {
            if (!forgotten) ring();
          }),
        );
        return () => {
          forgotten = true;
          forget();
        };
      },
    };
    function call<Answer>(work: () => Answer, signal: AbortSignal | undefined): Promise<Answer> {
      return new Promise((resolve, reject) => {
        signal?.addEventListener("abort", () => whenAwake(() => reject(new DOMException("aborted", "AbortError"))));
        if (link === "away") reject(Object.assign(new Error("refused"), { code: "ECONNREFUSED" }));
        if (link === "away" || link === "silent") return;
        // What is on its way is not stopped by the candidate's being frozen.
        clock.alarm(latencyMs(), () => {
          // Worked on now, answered later.
          const answer = new Promise<Answer>((done) => done(work()));
          answer.catch(() => undefined);
          if (link !== "answers lost") clock.alarm(latencyMs(), () => whenAwake(() => resolve(answer)));
        });
      });
    }
    const calls = {
      get: (_resource: unknown, _name: string, options?: { signal?: AbortSignal }) => call(server.get, options?.signal),
      create: (_resource: unknown, object: LeaseObject, options?: { signal?: AbortSignal }) =>
        call(() => server.create(object), options?.signal),
      replace: (_resource: unknown, object: LeaseObject, options?: { signal?: AbortSignal }) =>
        call(() => server.replace(object), options?.signal),
    } as unknown as LeaderElectionOptions["calls"];
    return {
      id,
      stop,
      terms,
      get link() {
        return link;
      },
      set link(next) {
        link = next;
      },
      freeze: () => (frozen = true),
      thaw: () => {
        if (killed) return;
        frozen = false;
        const due = held;
        held = [];
        for (const work of due) work();
      },
      kill: () => {
        frozen = true;
        killed = true;
      },
      get killed() {
        return killed;
      },
      leads: () => !frozen && terms.some((term) => !term.signal.aborted && term.holds()),
      ended: leaderElection({
        calls,
        lease: { namespace: "default", name: "controller" },
        identity: `candidate-${id}`,
        stop: stop.signal,
        clock: own,
        wallClock: own.now,
        random: () => ((id * 7919) % 100) / 100,
        lead: (lead) => {
          terms.push(lead);
          return new Promise((resolve) => {
            for (const end of [lead.signal, stop.signal]) end.addEventListener("abort", () => resolve());
            if (lead.signal.aborted || stop.signal.aborted) resolve();
          });
        },
        ...more,
      }),
    };
  }
  return { clock, candidate, lease: () => lease };
}
