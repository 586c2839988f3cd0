import { readNatsAccess, type NatsAccess } from "@muster/bus";
import { describeFault, findFault, throwFault } from "@muster/faults";
import { checkDnsLabel } from "@muster/names";
import { readEnv } from "@muster/service";
import { readPoolsFile, type PoolsFile, type ProviderKinds } from "./read-pools-file.ts";

export type Config = {
  readonly nats: NatsAccess;
  readonly kube: { readonly kubeconfig: string | undefined };
  readonly name: string;
  readonly poolLabel: string;
  readonly lockTtlMs: number;
  readonly nodesFreshMs: number;
  readonly intervals: {
    readonly poolMs: number;
    readonly heartbeatMs: number;
    readonly reaperMs: number;
    readonly scanMs: number;
  };
  readonly clientTimeoutMs: number;
  readonly providerTimeoutMs: number;
  readonly bootsPerRound: number;
  readonly spotRequestPauseMs: number;
  readonly unavailableMs: number;
  readonly imageTtlMs: number;
  readonly file: PoolsFile;
};

/** The inputs of the configuration beside the environment. */
type ConfigSources = {
  /** Reads the text of a file; throws if it cannot be read. */
  readonly readText: (path: string) => string;
  readonly kinds: ProviderKinds;
};

const POOL_LABEL = "pool";
const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;

/** Reads the configuration; throws a fault that names every problem. */
export function readConfig(env: Readonly<Record<string, string | undefined>>, sources: ConfigSources): Config {
  const problems: string[] = [];
  const config = gather(problems, () => readVariables(env));
  const interval = config === undefined ? undefined : checkIntervals(config);
  if (interval !== undefined) problems.push(interval);
  const name = config === undefined ? undefined : checkDnsLabel("NODE_SCALER_NAME", config.name);
  if (name !== undefined) problems.push(describeFault(name));
  const poolLabel = config?.poolLabel ?? POOL_LABEL;
  /** YAML file of providers and pools. Without it, nothing is scaled. */
  const file = gather(problems, () => readPools(env["NODE_SCALER_FILE"]?.trim(), { ...sources, poolLabel }));
  if (config === undefined || file === undefined || problems.length > 0)
    return throwFault({ code: "invalid_request", field: "configuration", reason: `\n${problems.join("\n")}` });
  return { ...config, file };
}

/** Returns the value; on a failure, adds a problem and returns undefined. */
function gather<Part>(problems: string[], read: () => Part): Part | undefined {
  try {
    return read();
  } catch (error) {
    const fault = findFault(error);
    if (fault?.code !== "invalid_request") throw error;
    problems.push(describeFault(fault));
    return undefined;
  }
}

function readVariables(env: Readonly<Record<string, string | undefined>>): Omit<Config, "file"> {
  return readEnv(env, (read) => ({
    nats: readNatsAccess(read),
    kube: {
      /** Kubeconfig file of the cluster. Without it, the service account of the pod. */
      kubeconfig: read.optional("MUSTER_KUBECONFIG"),
    },
    /** Label value of its nodes. Unique for each installation in a cluster. */
    name: read.text("NODE_SCALER_NAME", "muster"),
    /** Node label whose value is the name of the pool. */
    poolLabel: read.text("NODE_SCALER_POOL_LABEL", POOL_LABEL),
    /** A leader that is silent for this long is replaced. */
    lockTtlMs: read.integer("NODE_SCALER_LOCK_TTL_MS", { fallback: 5000, min: 300, max: 10 * MINUTE_MS }),
    /** Maximum age of the watcher's mark that all nodes are known. Beyond it no node is judged. */
    nodesFreshMs: read.integer("NODE_SCALER_NODES_FRESH_MS", { fallback: 120_000, min: 1000, max: DAY_MS }),
    intervals: {
      /** Interval of rounds that compute, boot and mark stops. Longer than the heartbeat. */
      poolMs: read.integer("NODE_SCALER_POOL_INTERVAL_MS", { fallback: 7000, min: 50, max: DAY_MS }),
      /** Interval of rounds that judge health and follow claims. Longer than the client time limit. */
      heartbeatMs: read.integer("NODE_SCALER_HEARTBEAT_INTERVAL_MS", { fallback: 5000, min: 50, max: DAY_MS }),
      /** Interval of rounds that drain and stop. */
      reaperMs: read.integer("NODE_SCALER_REAPER_INTERVAL_MS", { fallback: 5000, min: 50, max: DAY_MS }),
      /** Interval of scans for orphans and vanished instances. */
      scanMs: read.integer("NODE_SCALER_SCAN_INTERVAL_MS", { fallback: 60_000, min: 50, max: DAY_MS }),
    },
    /** Time limit of one request to the ledger or the API server. */
    clientTimeoutMs: read.integer("NODE_SCALER_CLIENT_TIMEOUT_MS", { fallback: 3000, min: 10, max: DAY_MS }),
    /** Time limit of one call of a provider. */
    providerTimeoutMs: read.integer("NODE_SCALER_PROVIDER_TIMEOUT_MS", { fallback: 60_000, min: 10, max: DAY_MS }),
    /** Maximum nodes created in one round. */
    bootsPerRound: read.integer("NODE_SCALER_BOOTS_PER_ROUND", { fallback: 10, min: 1, max: 1000 }),
    /** Time without spot capacity after which `Preferred` falls back to on-demand. */
    spotRequestPauseMs: read.integer("NODE_SCALER_SPOT_REQUEST_PAUSE_MS", { fallback: 60_000, min: 0, max: DAY_MS }),
    /** Time for which an instance type without capacity is not requested. */
    unavailableMs: read.integer("NODE_SCALER_UNAVAILABLE_MS", { fallback: 600_000, min: 0, max: DAY_MS }),
    /** How long a resolved boot image is used before it is resolved again. */
    imageTtlMs: read.integer("NODE_SCALER_IMAGE_TTL_MS", { fallback: 300_000, min: 0, max: DAY_MS }),
  }));
}

type FileSources = ConfigSources & { readonly poolLabel: string };

function readPools(path: string | undefined, sources: FileSources): PoolsFile {
  if (path === undefined) return { providers: [], pools: [] };
  if (path !== "") return readFile(path, sources);
  const reason = "is empty: the path of the file of pools is needed; without the variable nothing is scaled";
  return throwFault({ code: "invalid_request", field: "NODE_SCALER_FILE", reason });
}

/** Checks that each interval is longer than the one on which it depends, because a round decides on the results of an earlier one. */
function checkIntervals({ intervals, clientTimeoutMs }: Pick<Config, "intervals" | "clientTimeoutMs">) {
  const { poolMs, heartbeatMs } = intervals;
  if (poolMs > heartbeatMs && heartbeatMs > clientTimeoutMs) return undefined;
  const found = `${poolMs} > ${heartbeatMs} > ${clientTimeoutMs}`;
  const names = "NODE_SCALER_POOL_INTERVAL_MS > NODE_SCALER_HEARTBEAT_INTERVAL_MS > NODE_SCALER_CLIENT_TIMEOUT_MS";
  return `the rule "pool interval > heartbeat interval > client time limit" is broken: ${names} would be ${found}`;
}

function readFile(path: string, sources: FileSources): PoolsFile {
  let text: string;
  try {
    text = sources.readText(path);
  } catch (error) {
    const reason = `${path} cannot be read: ${error instanceof Error ? error.message : String(error)}`;
    return throwFault({ code: "invalid_request", field: "NODE_SCALER_FILE", reason }, { cause: error });
  }
  try {
    return readPoolsFile(text, sources);
  } catch (error) {
    const fault = findFault(error);
    if (fault?.code !== "invalid_request") throw error;
    return throwFault({ ...fault, reason: `${path}: ${fault.reason}` }, { cause: error });
  }
}
