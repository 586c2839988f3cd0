/** A node as the ledger reports it. */
export type MachineState = {
  readonly node: string;
  readonly pool: string;
  /** `KIND/ID` of the owner of the whole; empty: none. */
  readonly holder: string;
  /** A word of the ledger: `FREE`, `HELD`, `SHARED`. */
  readonly standing: string;
  /** False with the standing CORDONED: it is tainted. Undefined: the ledger does not report it. */
  readonly cordoned?: boolean | undefined;
  /** Absent: not known. */
  readonly zone?: string;
  /** Owners of its parts, earliest first. */
  readonly sharedHolders: readonly { readonly owner: string; readonly sinceMs: number }[];
  /** Allocatable amounts, and those that can be granted in parts now, by resource: millicores of cpu, otherwise bytes or pieces. */
  readonly allocatable: Readonly<Record<string, number>>;
  readonly free: Readonly<Record<string, number>>;
  /** How much grants and foreign pods use beyond what it can allocate; empty: nothing. */
  readonly excess: Readonly<Record<string, number>>;
  /** Its foreign pods; undefined: none. */
  readonly foreign:
    | {
        readonly pods: number;
        readonly requests: Readonly<Record<string, number>>;
        readonly examples: readonly string[];
      }
    | undefined;
};

/** A node that the node scaler made, or makes. */
export type ScaledNode = {
  readonly name: string;
  readonly pool: string;
  readonly instanceType: string;
  readonly spot: boolean;
  /** Empty: the provider has not reported it. */
  readonly zone: string;
  /** A word of the scaler: `AVAILABLE`. UNKNOWN: a scaler that is newer than this command knows more words. */
  readonly phase: string;
  readonly phaseSinceMs: number;
  readonly createdAtMs: number;
  /** Empty until the provider has answered. */
  readonly instanceId: string;
  /** Empty until it has joined. */
  readonly kubernetesNode: string;
  readonly addresses: readonly string[];
  /** What it was made or is kept for; empty: nothing. */
  readonly boundTo: string;
  /** `KIND/ID`; empty: it has no holder. */
  readonly holder: string;
  /** Undefined: it is not to end. */
  readonly terminate:
    | {
        readonly code: string;
        readonly message: string;
        readonly atMs: number;
        readonly drainUntilMs: number | undefined;
      }
    | undefined;
  readonly unhealthySinceMs: number | undefined;
  readonly idleSinceMs: number | undefined;
  /** Why the latest step on it did not work; empty: it did. */
  readonly trouble: string;
  /** Undefined: it has not joined, or the ledger does not answer. */
  readonly machine: MachineState | undefined;
};

/** A row of the list of nodes. A node that Muster did not make has no more than this, and the phase STATIC. */
export type ListedNode = Pick<ScaledNode, "name" | "pool" | "phase" | "kubernetesNode" | "holder" | "machine"> &
  Partial<ScaledNode>;

/** Nodes of one kind that are made and not ready yet. */
export type BootingNodes = {
  readonly instanceType: string;
  readonly spot: boolean;
  readonly count: number;
  /** Of the one that has been booting longest. */
  readonly sinceMs: number;
};

/** How a pool is scaled. */
export type PoolScaling = {
  readonly pool: string;
  readonly max: number;
  readonly standby: number;
  readonly booting: readonly BootingNodes[];
  /** Why nodes that are needed are not made; undefined: all are. */
  readonly blocked: { readonly code: string; readonly message: string } | undefined;
};

/** Why a pool does not get its nodes. */
export type PoolTrouble = {
  readonly pool: string;
  /** NO_CAPACITY, BOOT_FAILED, BOOT_TIMEOUT, UNHEALTHY, PROVIDER_FAILED, POOL_WRONG; a scaler that is newer than this command knows more words. */
  readonly code: string;
  readonly provider: string;
  /** Empty: every type of the pool. */
  readonly instanceType: string;
  readonly spot: boolean;
  /** Empty: everywhere. */
  readonly zone: string;
  readonly message: string;
  readonly sinceMs: number;
  /** Undefined: as soon as a node is needed. */
  readonly nextTryAtMs: number | undefined;
  /** Boots that failed in a row. */
  readonly boots: number;
};

/** What the scaler's leader does and remembers. */
export type ScalerDump = {
  readonly leader: string;
  readonly term: number;
  readonly nodes: number;
  readonly loops: readonly {
    readonly name: string;
    readonly intervalMs: number;
    readonly rounds: number;
    readonly failures: number;
    /** Undefined: it has not run yet. */
    readonly lastStartedAtMs: number | undefined;
    readonly lastDurationMs: number;
    readonly meanDurationMs: number;
    /** Of the latest round; empty: it did not fail. */
    readonly error: string;
  }[];
  readonly unavailable: readonly {
    readonly provider: string;
    readonly instanceType: string;
    readonly spot: boolean;
    /** Zone or subnet; empty: everywhere. */
    readonly place: string;
    readonly message: string;
    readonly sinceMs: number;
    readonly untilMs: number;
  }[];
  readonly pools: readonly PoolScaling[];
  readonly bindings: readonly { readonly demand: string; readonly node: string }[];
  readonly bindingsMore: number;
  readonly troubles: readonly PoolTrouble[];
  /** Why it has decided nothing yet; empty: it has. */
  readonly undecided: string;
};

/** What the scaler does about the machines that an owner waits for. */
export type DemandScaling =
  /** The scaler knows of no need that it could meet. */
  | { readonly state: "unknown" }
  /** `code` is BOOTING, or the reason why no node is made. */
  | {
      readonly state: "known";
      readonly code: string;
      readonly message: string;
      readonly booting: readonly BootingNodes[];
      /** Boots that failed in its pools: those on their way may fail too. */
      readonly troubles: readonly PoolTrouble[];
    }
  /** No scaler has answered. */
  | { readonly state: "unanswered"; readonly trouble: string };
