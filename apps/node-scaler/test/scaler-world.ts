import { throwFault } from "@muster/faults";
import { labels } from "@muster/proto";
import type { Taint } from "@muster/resources";
import { makeModify } from "@muster/store";
import { makeRecords, type NodeRecords } from "../src/adapters/records.ts";
import { ZONE } from "../src/domain/may-accept.ts";
import type { NodePhase, ScaledNode, TerminationCode } from "../src/domain/node.ts";
import type { PoolPolicy } from "../src/domain/pool.ts";
import type { KubeNode, KubeNodes, PodOnNode } from "../src/domain/sightings.ts";
import { runHeartbeatRound } from "../src/rounds/heartbeat-round.ts";
import { runPoolRound } from "../src/rounds/pool-round.ts";
import { runReaperRound } from "../src/rounds/reaper-round.ts";
import { runScanRound } from "../src/rounds/scan-round.ts";
import type { NodeProvider } from "../src/providers/provider.ts";
import { makeScaler, type LoopName, type Scaler } from "../src/scaler.ts";
import { makeMemoryBucket } from "./memory-bucket.ts";
import { makeMemoryCloud, type CloudInstance } from "./memory-cloud.ts";
import { SmallLedger } from "./small-ledger.ts";

const ROUNDS: Readonly<Record<LoopName, (scaler: Scaler) => Promise<void>>> = {
  pool: runPoolRound,
  heartbeat: runHeartbeatRound,
  reaper: runReaperRound,
  scan: runScanRound,
};

/** Reasons to end that must never apply to a held node. */
const GENTLE: readonly TerminationCode[] = ["IDLE", "RETURNED", "POOL_REMOVED"];

const ON_ITS_WAY: ReadonlySet<NodePhase> = new Set(["Creating", "Created", "Available"]);

type Node = { -readonly [Field in keyof KubeNode]: KubeNode[Field] } & {
  readonly pool: string;
  readonly taints?: readonly Taint[];
  tainted?: boolean;
};

/** One life of a process. After its last effect every call fails, as if the process had been killed there. */
type Life = { readonly skewMs: number; effectsLeft: number; readonly term: number };

class Killed extends Error {}

type Observation = {
  readonly atMs: number;
  readonly nodes: readonly { readonly node: KubeNode; readonly pool: string }[];
  readonly pods: ReadonlyMap<string, readonly PodOnNode[]>;
};

/**
 * A cluster, a cloud, a ledger and a store that outlive the scaler. Tests drive it round by round and can kill it between any two effects. `problems` lists
 * violated guarantees.
 */
export class ScalerWorld {
  nowMs = 1_000_000_000;
  readonly problems: string[] = [];
  readonly ledger = new SmallLedger();
  readonly cloud = makeMemoryCloud({ name: "cloud", now: () => this.nowMs });
  /** Providers in addition to the cloud. */
  readonly others = new Map<string, NodeProvider>();
  readonly nodes = new Map<string, Node>();
  /** The milliseconds by which the wall clock is ahead. */
  wallAheadMs = 0;
  /** The boot time of an instance. */
  bootMs = 30_000;
  /** Pods of the holder, by the name of their node. */
  readonly pods = new Map<string, readonly PodOnNode[]>();
  policies: ReadonlyMap<string, PoolPolicy>;
  /** Labels that nodes get without any configuration. */
  lateLabels: Readonly<Record<string, string>> = {};
  /** Whether nodes get the label of their zone. */
  hasZoneLabels = true;
  /** Taints that nodes get in addition to the startup taint. */
  cloudTaints: readonly Taint[] = [];
  /** The age of the records' view, which may lack newer ones. */
  viewAgeMs = 0;
  /** Whether the ledger does not answer. */
  isLedgerSilent = false;
  /** Whether the watcher reports nothing new. */
  isWatcherSilent = false;
  /** The unnoticed age of their data about nodes and pods. */
  readonly lagMs = { scaler: 0, ledger: 0 };
  /** Whether the file of pools contains the clouds. */
  isConfigured = true;
  readonly #store = makeMemoryBucket<ScaledNode>();
  #seen: KubeNodes = { byName: new Map(), known: true };
  /** The oldest observation first. A reader's data never become older. */
  readonly #history: Observation[] = [];
  #known: { readonly scaler: Observation; readonly ledger: Observation };
  #scaler: Scaler;
  #records: NodeRecords;
  #life: Life;
  #rounds = 0;

  constructor(...policies: readonly PoolPolicy[]) {
    this.policies = new Map(policies.map((policy) => [policy.name, policy]));
    this.cloud.onStop = (instance) => this.#checkStop(instance);
    const nothing = { atMs: this.nowMs, nodes: [], pods: new Map() };
    this.#known = { scaler: nothing, ledger: nothing };
    [this.#scaler, this.#records, this.#life] = this.#lead({ skewMs: 0, effectsLeft: Infinity, term: 1 });
  }

  records(): readonly ScaledNode[] {
    return this.#store.view.entries().map(({ value }) => value);
  }

  get scaler(): Scaler {
    return this.#scaler;
  }

  /** Kills the leader after this many more effects. */
  killAfter(effects: number): void {
    this.#life.effectsLeft = effects;
  }

  /** Starts another leader, whose clock differs by this much from the world's. */
  restart(skewMs = 0): void {
    // Further effects of the earlier leader come from a process that does not lead.
    this.#life.effectsLeft = 0;
    [this.#scaler, this.#records, this.#life] = this.#lead({
      skewMs,
      effectsLeft: Infinity,
      term: this.#life.term + 1,
    });
  }

  /** Runs one round of a loop, and the boots that it began. If the round was the leader's last, starts a new one. */
  async round(loop: LoopName): Promise<void> {
    this.#rounds += 1;
    try {
      await ROUNDS[loop](this.#scaler);
      await Promise.all(this.#scaler.memory.booting.values());
    } catch (error) {
      if (!(error instanceof Killed)) throw error;
    }
    this.#checkRecords();
    if (this.#life.effectsLeft <= 0) this.restart();
  }

  /** Boots and joins instances, and lets the watcher report all nodes. */
  watch(): void {
    for (const { boot, startedAtMs, joins } of this.cloud.instances.values()) {
      const name = `k-${boot.nodeName}`;
      if (!joins || this.nowMs - startedAtMs < this.bootMs || this.nodes.has(name)) continue;
      const scaledNode = boot.labels[labels.scaledNode];
      const closed = {
        cordoned: false,
        labels: {
          ...boot.labels,
          ...(this.hasZoneLabels && boot.zone !== undefined && { [ZONE]: boot.zone }),
          ...this.lateLabels,
        },
        hasStartupTaint: boot.taints.length > 0,
        overhead: new Map(),
      };
      this.nodes.set(name, {
        name,
        uid: name,
        scaledNode,
        ready: true,
        ...closed,
        pool: boot.pool,
        taints: this.cloudTaints,
      });
    }
    const alive = new Set([...this.cloud.instances.values()].map(({ boot }) => boot.nodeName));
    for (const node of this.nodes.values())
      if (node.scaledNode !== undefined && !alive.has(node.scaledNode)) node.ready = false;
    if (this.isWatcherSilent) {
      this.#seen = { ...this.#seen, known: false };
      return;
    }
    const nodes = [...this.nodes.values()].map((node) => ({ node: { ...node }, pool: node.pool }));
    this.#observe({ atMs: this.nowMs, nodes, pods: new Map(this.pods) });
    this.ledger.observe(this.#known.ledger.nodes);
    this.#seen = { byName: new Map(this.#known.scaler.nodes.map(({ node }) => [node.name, node])), known: true };
  }

  #observe(now: Observation): void {
    const { scaler, ledger } = this.lagMs;
    this.#history.push(now);
    const newestFor = (lagMs: number, known: Observation): Observation =>
      this.#history.findLast(({ atMs }) => atMs <= now.atMs - lagMs && atMs > known.atMs) ?? known;
    this.#known = {
      scaler: newestFor(scaler, this.#known.scaler),
      ledger: newestFor(ledger, this.#known.ledger),
    };
    const oldest = now.atMs - Math.max(scaler, ledger);
    this.#history.splice(
      0,
      this.#history.findIndex(({ atMs }) => atMs >= oldest),
    );
  }

  /** Lets time pass realistically: every loop at its interval, the watcher and the ledger in between, and `each` every second. */
  async run(ms: number, each: () => void = () => undefined): Promise<void> {
    const endMs = this.nowMs + ms;
    for (let second = 1; this.nowMs < endMs; second += 1) {
      this.nowMs += 1000;
      this.watch();
      this.ledger.grant();
      each();
      if (second % 5 === 0) await this.round("heartbeat");
      if (second % 5 === 2) await this.round("reaper");
      // Without the ledger the round rejects, and decides nothing.
      if (second % 7 === 0 && !this.isLedgerSilent) await this.round("pool");
      if (second % 60 === 0) await this.round("scan");
    }
  }

  /** Starts the holder's pods on the machines of a grant. */
  reach(id: string): void {
    const reservation = this.ledger.reservations.get(id);
    for (const node of reservation?.machines ?? []) {
      const pod = { namespace: "default", name: `p-${node}`, uid: node, owner: reservation?.owner, deleting: false };
      this.pods.set(node, [pod]);
    }
  }

  /** Ends the holder's pods, and releases its machines. */
  release(id: string): void {
    for (const node of this.ledger.reservations.get(id)?.machines ?? []) this.pods.delete(node);
    this.ledger.release(id);
  }

  #lead(life: Life): [Scaler, NodeRecords, Life] {
    const effect = async <Result>(work: () => Promise<Result>): Promise<Result> => {
      if (life.effectsLeft <= 0) throw new Killed();
      life.effectsLeft -= 1;
      return await work();
    };
    const readWhileAlive = <Result>(value: () => Result): Promise<Result> =>
      life.effectsLeft <= 0 ? Promise.reject(new Killed()) : Promise.resolve(value());
    const { bucket, view } = this.#store;
    const now = (): number => this.nowMs + life.skewMs;
    const single: typeof bucket = {
      get: (key) => readWhileAlive(() => view.get(key)),
      create: (...args) => effect(() => bucket.create(...args)),
      update: (...args) => effect(() => bucket.update(...args)),
      delete: (...args) => effect(() => bucket.delete(...args)),
    };
    const records = makeRecords({
      bucket: { ...single, modify: makeModify(single) },
      view: { ...view, ageMs: () => this.viewAgeMs },
      unreadable: new Set(),
      now,
      isHeld: () => life.effectsLeft > 0,
    });
    const { provider } = this.cloud;
    const scaler = makeScaler({
      name: "muster",
      now,
      wallNow: () => this.nowMs + this.wallAheadMs,
      term: life.term,
      isHeld: () => life.effectsLeft > 0,
      signal: new AbortController().signal,
      orderSignal: new AbortController().signal,
      seed: () => `${life.term}-${this.#rounds}`,
      records,
      policies: this.policies,
      poolLabel: "pool",
      providers: new Map<string, NodeProvider>(
        this.isConfigured
          ? [
              ...this.others,
              [
                "cloud",
                {
                  ...provider,
                  start: (boot, signal) =>
                    effect(() => {
                      this.#checkStart(boot.nodeName);
                      return provider.start(boot, signal);
                    }),
                  stop: (...args) => effect(() => provider.stop(...args)),
                },
              ],
            ]
          : [],
      ),
      cluster: {
        nodes: () => this.#seen,
        pods: () => (this.lagMs.scaler === 0 ? this.pods : this.#known.scaler.pods),
        removeStartupTaint: (name) => effect(() => this.#change(name, { hasStartupTaint: false })),
        cordon: (name) => effect(() => this.#change(name, { cordoned: true })),
        uncordon: (name) => effect(() => this.#change(name, { cordoned: false })),
        podsOn: (name) => readWhileAlive(() => this.pods.get(name) ?? []),
        evict: ({ uid }) => effect(() => Promise.resolve(void this.pods.delete(uid))),
        deleteNode: ({ name }) => effect(() => Promise.resolve(void this.nodes.delete(name))),
      },
      machines: () =>
        readWhileAlive(() => {
          if (this.isLedgerSilent) throwFault({ code: "unavailable", dependency: "the ledger", retryAfterMs: 0 });
          return this.ledger.machines();
        }),
      demands: () => readWhileAlive(() => this.ledger.demands(this.policies)),
      bootImage: () => readWhileAlive(() => ""),
      announcePools: () => readWhileAlive(() => undefined),
      publishPools: () => readWhileAlive(() => undefined),
      limits: { bootsPerRound: 10, spotRequestPauseMs: 60_000 },
      unavailableMs: 600_000,
      patienceMs: 10,
      listFreshMs: 120_000,
      report: {
        planned: () => undefined,
        failed: () => undefined,
        booted: () => undefined,
        poolIsWrong: () => undefined,
      },
    });
    return [scaler, records, life];
  }

  #change(name: string, change: Partial<Node>): Promise<void> {
    const node = this.nodes.get(name);
    if (node !== undefined) Object.assign(node, change);
    return Promise.resolve();
  }

  /** Checks the stop against the current state of the world, not against what a service has observed. */
  #checkStop({ boot, instanceId }: CloudInstance): void {
    const code = this.#records.get(boot.nodeName)?.spec.terminate?.code;
    const isHeld = this.ledger.holderOf(`k-${boot.nodeName}`) !== undefined;
    if (isHeld && (code === undefined || GENTLE.includes(code)))
      this.problems.push(`${instanceId} of ${boot.nodeName} is stopped for ${code ?? "nothing"} while it is held`);
  }

  /** Checks that no instance is booted for a demand with a booting or ready node. */
  #checkStart(name: string): void {
    const bound = this.#records.get(name)?.status.boundTo;
    if (bound === undefined) return;
    const twin = this.#records
      .list()
      .find(
        (node) =>
          node.name !== name &&
          node.status.boundTo === bound &&
          node.spec.terminate === undefined &&
          ON_ITS_WAY.has(node.status.phase),
      );
    if (twin !== undefined) this.problems.push(`${name} is booted for ${bound}, which has ${twin.name}`);
  }

  #checkRecords(): void {
    for (const [name, times] of this.cloud.starts)
      if (times > 1) this.problems.push(`${name} was started ${times} times`);
    for (const { name, max } of this.policies.values()) {
      const made = this.records().filter(({ spec, status }) => spec.pool === name && status.phase !== "Terminated");
      if (made.length > max) this.problems.push(`pool ${name} has ${made.length} nodes, which is more than ${max}`);
    }
  }
}
